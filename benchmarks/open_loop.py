"""The open loop: look-ups at Poisson arrivals, independent of earlier answers.

Arrivals are drawn ahead, and a latency counts from the intended arrival, so that the latency of a
client process that falls behind includes its delay. The client sends the look-ups that have arrived
once per timer tick: a client that spins between arrivals would take a CPU from the servers.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.closed_loop import WrongAnswerError
from benchmarks.figures import percentile

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence


_TICK_S = 0.001
"""The timer resolution of uvloop and of asyncio's own loop."""


@dataclass(frozen=True)
class OpenLoopSample:
    """One open loop of some seconds."""

    rate: float
    """Intended arrivals a second."""
    p50_us: float
    p99_us: float
    answers: int
    kept_up: bool
    """False if a look-up was not answered in time; the latencies are of the answered ones."""

    def holds(self, p99_us: float) -> bool:
        """True if all were answered and their p99 is below the limit."""
        return self.kept_up and self.p99_us < p99_us


def poisson_arrivals(rate: float, seconds: float, seed: int) -> list[int]:
    """Arrival times in ns from the start: exponential gaps, `rate` a second on average."""
    draw = random.Random(seed).expovariate
    arrivals: list[int] = []
    at_s = draw(rate)
    while at_s < seconds:
        arrivals.append(int(at_s * 1e9))
        at_s += draw(rate)
    return arrivals


async def open_loop(
    look_up: Callable[[int], Awaitable[object]],
    is_right: Callable[[int, object], bool],
    order: Sequence[int],
    *,
    rate: float,
    warm_up_s: float,
    seconds: float,
    seed: int = 3,
    give_up_s: float = 1.0,
) -> OpenLoopSample:
    """Looks up the items of `order` at Poisson arrivals and checks each answer.

    Ends early if a look-up waits for its answer longer than `give_up_s`. Look-ups that arrive
    during the warm-up are not counted. Raises `WrongAnswerError` at a wrong answer.
    """
    arrivals = poisson_arrivals(rate, warm_up_s + seconds, seed)
    counted_from = int(warm_up_s * 1e9)
    latencies: list[int] = []
    wrong: list[str] = []
    look_ups: list[asyncio.Future[object] | None] = []  # by arrival; None once answered
    oldest = 0
    clock = time.perf_counter_ns
    start = clock()

    def answered(position: int, done: asyncio.Future[object]) -> None:
        now = clock() - start
        look_ups[position] = None
        if done.cancelled():
            return
        item = order[position % len(order)]
        if error := done.exception():
            wrong.append(f"item {item}: {error!r}")
        elif not is_right(item, done.result()):
            wrong.append(f"item {item}: {done.result()!r}")
        elif arrivals[position] >= counted_from:
            latencies.append(now - arrivals[position])

    def keeps_up() -> bool:
        nonlocal oldest
        while oldest < len(look_ups) and look_ups[oldest] is None:
            oldest += 1
        if oldest == len(look_ups):
            return True
        return clock() - start - arrivals[oldest] <= give_up_s * 1e9

    kept_up = True
    while len(look_ups) < len(arrivals) and kept_up and not wrong:
        now = clock() - start
        while len(look_ups) < len(arrivals) and arrivals[len(look_ups)] <= now:
            position = len(look_ups)
            pending = asyncio.ensure_future(look_up(order[position % len(order)]))
            look_ups.append(pending)
            pending.add_done_callback(partial(answered, position))
        if len(look_ups) < len(arrivals):
            gap_s = (arrivals[len(look_ups)] - (clock() - start)) / 1e9
            await asyncio.sleep(max(_TICK_S, gap_s))
        kept_up = keeps_up()
    while kept_up and not wrong and oldest < len(look_ups):
        await asyncio.sleep(0.01)
        kept_up = keeps_up()
    await _abandon([pending for pending in look_ups if pending is not None])
    if wrong:
        raise WrongAnswerError(wrong[0])
    latencies.sort()
    return OpenLoopSample(
        rate=rate,
        p50_us=percentile(latencies, 0.50) / 1000,
        p99_us=percentile(latencies, 0.99) / 1000,
        answers=len(latencies),
        kept_up=kept_up,
    )


async def _abandon(look_ups: list[asyncio.Future[object]]) -> None:
    for each in look_ups:
        each.cancel()
    if look_ups:
        await asyncio.wait(look_ups)
