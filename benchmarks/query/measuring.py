"""The run: closed and open loops over all peers in turn, every answer checked."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections import defaultdict
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING

from benchmarks.figures import thousands
from benchmarks.gc_modes import GcMode, collecting
from benchmarks.open_loop import OpenLoopSample, open_loop
from benchmarks.query.clients.load_generator import AsyncioLoadGenerator
from benchmarks.rate_search import RateSearch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Sequence

    from benchmarks.closed_loop import LoopSample
    from benchmarks.query.clients.load_generator import MeasuredPeer, Operation
    from benchmarks.query.dataset import Dataset
    from benchmarks.query.feeding.feeder import FeederProcess

HELD_P99_US = 5_000.0
"""An open loop holds a rate while its p99 is below this."""
FIRST_RATE = 2_000.0


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The loops of a run, their length and number."""

    in_flight: dict[Operation, tuple[int, ...]]
    """The operations of the closed loops, with the numbers of look-ups in flight."""
    open_loops: bool
    rate_resolution: float
    """A search ends when the ratio of the failed to the held rate is at most this."""
    rounds: int
    seconds: float
    warm_up_s: float


@dataclass
class Samples:
    """All loops of a run, by peer."""

    closed: dict[Operation, dict[tuple[str, int], list[LoopSample]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    """By operation, then by peer and look-ups in flight."""
    open: dict[str, list[OpenLoopSample]] = field(default_factory=lambda: defaultdict(list))
    """Every try at every rate."""
    highest_rate: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    """The highest rate held in each search."""


async def measure(
    peers: Sequence[MeasuredPeer],
    open_loop_peers: Sequence[MeasuredPeer],
    dataset: Dataset,
    plan: Plan,
) -> Samples:
    """Runs every loop of the plan; the peers alternate, every other round in reverse order.

    Loops of different operations on one peer are neighbours, in either order, so that their ratio
    is not that of two minutes of the machine.

    Raises `WrongAnswerError` if any answer, or any value at the end, is wrong.
    """
    samples = Samples()
    for number in range(plan.rounds):
        turn = list(peers) if number % 2 == 0 else list(reversed(peers))
        operations = list(plan.in_flight) if number % 2 == 0 else list(reversed(plan.in_flight))
        for in_flight in sorted({count for counts in plan.in_flight.values() for count in counts}):
            for peer, operation in product(turn, operations):
                generator = peer.generator
                if in_flight in plan.in_flight[operation] and operation in generator.operations:
                    sample = await _closed_loop(peer, operation, in_flight, plan)
                    samples.closed[operation][generator.name, in_flight].append(sample)
                    _log(number, generator.name, f"{operation} {in_flight:5} in flight", sample)
        if plan.open_loops:
            in_turn = open_loop_peers if number % 2 == 0 else list(reversed(open_loop_peers))
            await _search_rates(in_turn, plan, samples)
    for peer in peers:
        revision = peer.feeder.revision
        truth = dataset.values_at(revision, peer.feeder.keys_per_commit)
        await peer.generator.check_all(truth, revision)
        print(
            f"{peer.generator.name}: all {dataset.size:,} values are those of the last revision, "
            f"{revision}",
            file=sys.stderr,
        )
    return samples


async def _closed_loop(
    peer: MeasuredPeer, operation: Operation, in_flight: int, plan: Plan
) -> LoopSample:
    async with under_updates(peer.feeder, peer.gc_mode):
        return await peer.generator.closed_loop(
            operation, in_flight, warm_up_s=plan.warm_up_s, seconds=plan.seconds
        )


async def _search_rates(turn: Sequence[MeasuredPeer], plan: Plan, samples: Samples) -> None:
    """Runs one search per peer; the peers take turns, each with the next rate of its search."""
    searches = {
        peer.generator.name: RateSearch(FIRST_RATE, resolution=plan.rate_resolution)
        for peer in turn
    }
    while searches:
        for peer in turn:
            name = peer.generator.name
            if name not in searches:
                continue
            search = searches[name]
            rate = search.next_rate()
            if rate is None:
                samples.highest_rate[name].append(search.highest)
                del searches[name]
                continue
            sample = await _open_loop(peer, rate, plan)
            search.record(sample.holds(HELD_P99_US))
            samples.open[name].append(sample)
            print(
                f"open loop: {name:30} {thousands(rate):>6}/s  p50 {sample.p50_us:.0f} us  "
                f"p99 {sample.p99_us:.0f} us{'' if sample.kept_up else '  did not keep up'}",
                file=sys.stderr,
                flush=True,
            )


async def _open_loop(peer: MeasuredPeer, rate: float, plan: Plan) -> OpenLoopSample:
    generator = peer.generator
    assert isinstance(generator, AsyncioLoadGenerator)
    async with under_updates(peer.feeder, peer.gc_mode):
        return await open_loop(
            generator.client.get,
            generator.client.is_right,
            generator.order,
            rate=rate,
            warm_up_s=plan.warm_up_s / 2,
            seconds=plan.seconds,
        )


@contextlib.asynccontextmanager
async def under_updates(
    feeder: FeederProcess, gc_mode: GcMode = GcMode.TUNED
) -> AsyncIterator[None]:
    """Lets the feeder write during the block, with a GC mode in this process."""
    await asyncio.to_thread(feeder.run)
    with collecting(gc_mode):
        try:
            yield
        finally:
            await asyncio.to_thread(feeder.pause)


def _log(number: int, name: str, loop: str, sample: LoopSample) -> None:
    print(
        f"round {number + 1}: {name:30} {loop} {thousands(sample.per_second):>6} keys/s  "
        f"p50 {sample.p50_us:.0f} us  p99 {sample.p99_us:.0f} us  p99.9 {sample.p999_us:.0f} us  "
        f"client CPU {sample.cpu_us:.2f} us a key",
        file=sys.stderr,
        flush=True,
    )
