"""Takes the peers in turn through the closed loops, and proves each answer right."""

from __future__ import annotations

import asyncio
import gc
import sys
import time
from collections import defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from benchmarks.closed_loop import LoopSample, WrongAnswerError, closed_loop
from benchmarks.figures import thousands
from benchmarks.query.dataset import BATCH_KEYS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.query.dataset import Dataset
    from benchmarks.query.feeding import Feeding
    from benchmarks.query.peers import Peer


SETTLE_S = 20.0
"""How long after the last write its commit may take to reach all servers."""


@dataclass(frozen=True)
class Measured:
    """A peer and who writes to it while it is asked."""

    peer: Peer
    feeding: Feeding


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How long and how often."""

    in_flight: tuple[int, ...]
    many_in_flight: tuple[int, ...]
    """For the answers of `BATCH_KEYS` keys."""
    rounds: int
    seconds: float
    warm_up_s: float
    updates: int
    """Keys of one revision."""


@dataclass
class Samples:
    """All loops of a run, by peer and awaits in flight."""

    single: dict[tuple[str, int], list[LoopSample]] = field(
        default_factory=lambda: defaultdict(list)
    )
    many: dict[tuple[str, int], list[LoopSample]] = field(default_factory=lambda: defaultdict(list))
    """`per_second` and `cpu_us` by key, latencies of the whole answer."""


async def measure(measured: Sequence[Measured], dataset: Dataset, plan: Plan) -> Samples:
    """Runs every loop of the plan; the peers alternate, every other round backwards.

    Raises `WrongAnswerError` where any answer, or at the end any of all values, is wrong.
    """
    samples = Samples()
    order = dataset.order()
    starts = list(range(0, dataset.size - BATCH_KEYS + 1, BATCH_KEYS))
    for number in range(plan.rounds):
        turn = list(measured) if number % 2 == 0 else list(reversed(measured))
        for in_flight in plan.in_flight:
            for one in turn:
                sample = await _loop(one, order, in_flight, plan, many=False)
                samples.single[one.peer.name, in_flight].append(sample)
                _say(number, one, f"{in_flight:5}", sample)
        for in_flight in plan.many_in_flight:
            for one in turn:
                sample = await _loop(one, starts, in_flight, plan, many=True)
                samples.many[one.peer.name, in_flight].append(sample)
                _say(number, one, f"{in_flight:2}x{BATCH_KEYS}", sample)
    for one in measured:
        await _check_all(one, dataset, plan)
    return samples


async def _loop(
    one: Measured, order: Sequence[int], in_flight: int, plan: Plan, *, many: bool
) -> LoopSample:
    await asyncio.to_thread(one.feeding.run)
    gc.collect()
    gc.freeze()
    try:
        sample = await closed_loop(
            one.peer.ask_many if many else one.peer.ask,
            one.peer.are_right if many else one.peer.is_right,
            order,
            in_flight=in_flight,
            warm_up_s=plan.warm_up_s,
            seconds=plan.seconds,
        )
    finally:
        gc.unfreeze()
        await asyncio.to_thread(one.feeding.pause)
    if many:
        return replace(
            sample,
            per_second=sample.per_second * BATCH_KEYS,
            cpu_us=sample.cpu_us / BATCH_KEYS,
        )
    return sample


async def _check_all(one: Measured, dataset: Dataset, plan: Plan) -> None:
    """Every key has exactly the value written last."""
    deadline = time.monotonic() + SETTLE_S
    truth = dataset.values_at(one.feeding.revision, plan.updates)
    for start in range(0, dataset.size - BATCH_KEYS + 1, BATCH_KEYS):
        answers = await one.peer.ask_many(start)
        while not one.peer.is_at(one.feeding.revision, answers):
            if time.monotonic() > deadline:
                raise WrongAnswerError(f"{one.peer.name} is behind {one.feeding.revision}")
            await asyncio.sleep(0.01)
            answers = await one.peer.ask_many(start)
        found = one.peer.texts(answers)
        wanted = truth[start : start + BATCH_KEYS]
        if found != wanted:
            raise WrongAnswerError(f"{one.peer.name}, keys from {start}: {found}, not {wanted}")
    print(
        f"{one.peer.name}: all {dataset.size:,} values as written last, "
        f"revision {one.feeding.revision}",
        file=sys.stderr,
    )


def _say(number: int, one: Measured, loop: str, sample: LoopSample) -> None:
    print(
        f"round {number + 1}: {one.peer.name:24} {loop} in flight "
        f"{thousands(sample.per_second):>6} keys/s  p50 {sample.p50_us:.0f} us  "
        f"p99 {sample.p99_us:.0f} us  client CPU {sample.cpu_us:.2f} us a key",
        file=sys.stderr,
        flush=True,
    )
