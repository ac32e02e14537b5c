"""Takes the peers in turn through closed and open loops, and proves each answer right."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

from benchmarks.figures import thousands
from benchmarks.open_loop import OpenLoopSample, open_loop
from benchmarks.query.asking import AsyncioAsking
from benchmarks.rate_search import RateSearch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from benchmarks.closed_loop import LoopSample
    from benchmarks.query.asking import Measured
    from benchmarks.query.dataset import Dataset
    from benchmarks.query.feeding import Feeding
    from benchmarks.query.question import Question

HELD_P99_US = 5_000.0
"""An open loop's rate is held while its p99 is below this."""
FIRST_RATE = 2_000.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How long and how often."""

    in_flight: dict[Question, tuple[int, ...]]
    """What is asked in closed loops, and how many await their answers at once."""
    open_loops: bool
    rate_resolution: float
    """How close held and failed rates come before a search ends, as a ratio."""
    rounds: int
    seconds: float
    warm_up_s: float
    updates: int
    """Keys of one revision."""


@dataclass
class Samples:
    """All loops of a run, by peer."""

    closed: dict[Question, dict[tuple[str, int], list[LoopSample]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    """By question, then by peer and awaits in flight."""
    open: dict[str, list[OpenLoopSample]] = field(default_factory=lambda: defaultdict(list))
    """Every try at every rate."""
    highest_rate: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """The highest rate held in each search."""


async def measure(
    measured: Sequence[Measured], open_looped: Sequence[str], dataset: Dataset, plan: Plan
) -> Samples:
    """Runs every loop of the plan; the peers alternate, every other round backwards.

    Loops that ask one peer different things stand next to each other, in either order, so that
    their ratio is not that of the machine a minute later.

    Raises `WrongAnswerError` where any answer, or at the end any of all values, is wrong.
    """
    samples = Samples()
    for number in range(plan.rounds):
        turn = list(measured) if number % 2 == 0 else list(reversed(measured))
        questions = list(plan.in_flight) if number % 2 == 0 else list(reversed(plan.in_flight))
        for in_flight in sorted({count for counts in plan.in_flight.values() for count in counts}):
            for one, question in product(turn, questions):
                if in_flight in plan.in_flight[question] and question in one.asking.questions:
                    sample = await _closed_loop(one, question, in_flight, plan)
                    samples.closed[question][one.asking.name, in_flight].append(sample)
                    _say(number, one.asking.name, f"{question} {in_flight:5} in flight", sample)
        if plan.open_loops:
            await _search_rates(
                [one for one in turn if one.asking.name in open_looped], plan, samples
            )
    for one in measured:
        truth = dataset.values_at(one.feeding.revision, plan.updates)
        await one.asking.check_all(truth, one.feeding.revision)
        print(
            f"{one.asking.name}: all {dataset.size:,} values as written last, "
            f"revision {one.feeding.revision}",
            file=sys.stderr,
        )
    return samples


async def _closed_loop(one: Measured, question: Question, in_flight: int, plan: Plan) -> LoopSample:
    async with fed_and_frozen(one.feeding):
        return await one.asking.closed_loop(
            question, in_flight, warm_up_s=plan.warm_up_s, seconds=plan.seconds
        )


async def _search_rates(turn: Sequence[Measured], plan: Plan, samples: Samples) -> None:
    """One search for each peer, all in step: each in turn tries the next rate of its own."""
    searches = {
        one.asking.name: RateSearch(FIRST_RATE, resolution=plan.rate_resolution) for one in turn
    }
    while searches:
        for one in turn:
            name = one.asking.name
            if name not in searches:
                continue
            search = searches[name]
            rate = search.next_rate()
            if rate is None:
                samples.highest_rate[name].append(search.highest)
                del searches[name]
                continue
            sample = await _open_loop(one, rate, plan)
            search.record(sample.holds(HELD_P99_US))
            samples.open[name].append(sample)
            print(
                f"open loop: {name:24} {thousands(rate):>6}/s  p50 {sample.p50_us:.0f} us  "
                f"p99 {sample.p99_us:.0f} us{'' if sample.kept_up else '  did not keep up'}",
                file=sys.stderr,
                flush=True,
            )


async def _open_loop(one: Measured, rate: float, plan: Plan) -> OpenLoopSample:
    asking = one.asking
    assert isinstance(asking, AsyncioAsking)
    async with fed_and_frozen(one.feeding):
        return await open_loop(
            asking.peer.ask,
            asking.peer.is_right,
            asking.order,
            rate=rate,
            warm_up_s=plan.warm_up_s / 2,
            seconds=plan.seconds,
        )


@contextlib.asynccontextmanager
async def fed_and_frozen(feeding: Feeding) -> AsyncIterator[None]:
    """Updates are written meanwhile; what was there before is not looked through for garbage."""
    await asyncio.to_thread(feeding.run)
    gc.collect()
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        await asyncio.to_thread(feeding.pause)


def _say(number: int, name: str, loop: str, sample: LoopSample) -> None:
    print(
        f"round {number + 1}: {name:24} {loop} {thousands(sample.per_second):>6} keys/s  "
        f"p50 {sample.p50_us:.0f} us  p99 {sample.p99_us:.0f} us  "
        f"CPU of who asks {sample.cpu_us:.2f} us a key",
        file=sys.stderr,
        flush=True,
    )
