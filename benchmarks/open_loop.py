"""The open loop: questions come when they come, whether or not the last one is answered.

Arrivals are drawn ahead, and a latency counts from the intended arrival, so that an asking process
that falls behind pays for it instead of asking less. What has arrived is asked for once a tick of
the loop's timers: an asker that spins between arrivals keeps a CPU from the servers it measures.
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
"""The resolution of uvloop's timers, as of those of asyncio's own loop."""


@dataclass(frozen=True)
class OpenLoopSample:
    """One open loop of some seconds."""

    rate: float
    """Arrivals a second, as asked for."""
    p50_us: float
    p99_us: float
    answers: int
    kept_up: bool
    """Whether every question was answered; if not, the latencies are of those that were."""

    def holds(self, p99_us: float) -> bool:
        """Whether all were answered with their p99 below this."""
        return self.kept_up and self.p99_us < p99_us


def poisson_arrivals(rate: float, seconds: float, seed: int) -> list[int]:
    """When questions arrive, in ns from the start: exponential gaps, `rate` a second on average."""
    draw = random.Random(seed).expovariate
    arrivals: list[int] = []
    at_s = draw(rate)
    while at_s < seconds:
        arrivals.append(int(at_s * 1e9))
        at_s += draw(rate)
    return arrivals


async def open_loop(
    ask: Callable[[int], Awaitable[object]],
    check: Callable[[int, object], bool],
    order: Sequence[int],
    *,
    rate: float,
    warm_up_s: float,
    seconds: float,
    seed: int = 3,
    give_up_s: float = 1.0,
) -> OpenLoopSample:
    """Asks for `order`'s items at Poisson arrivals and checks each answer.

    Ends early when a question has waited for its answer longer than `give_up_s`. Questions that
    arrive during the warm-up are not counted. Raises `WrongAnswerError` at a wrong answer.
    """
    arrivals = poisson_arrivals(rate, warm_up_s + seconds, seed)
    counted_from = int(warm_up_s * 1e9)
    latencies: list[int] = []
    wrong: list[str] = []
    questions: list[asyncio.Future[object] | None] = []  # by arrival; None once it is answered
    oldest = 0
    clock = time.perf_counter_ns
    start = clock()

    def answered(position: int, question: asyncio.Future[object]) -> None:
        now = clock() - start
        questions[position] = None
        if question.cancelled():
            return
        item = order[position % len(order)]
        if error := question.exception():
            wrong.append(f"item {item}: {error!r}")
        elif not check(item, question.result()):
            wrong.append(f"item {item}: {question.result()!r}")
        elif arrivals[position] >= counted_from:
            latencies.append(now - arrivals[position])

    def keeps_up() -> bool:
        nonlocal oldest
        while oldest < len(questions) and questions[oldest] is None:
            oldest += 1
        if oldest == len(questions):
            return True
        return clock() - start - arrivals[oldest] <= give_up_s * 1e9

    kept_up = True
    while len(questions) < len(arrivals) and kept_up and not wrong:
        now = clock() - start
        while len(questions) < len(arrivals) and arrivals[len(questions)] <= now:
            position = len(questions)
            question = asyncio.ensure_future(ask(order[position % len(order)]))
            questions.append(question)
            question.add_done_callback(partial(answered, position))
        if len(questions) < len(arrivals):
            gap_s = (arrivals[len(questions)] - (clock() - start)) / 1e9
            await asyncio.sleep(max(_TICK_S, gap_s))
        kept_up = keeps_up()
    while kept_up and not wrong and oldest < len(questions):
        await asyncio.sleep(0.01)
        kept_up = keeps_up()
    await _abandon([question for question in questions if question is not None])
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


async def _abandon(questions: list[asyncio.Future[object]]) -> None:
    for question in questions:
        question.cancel()
    if questions:
        await asyncio.wait(questions)
