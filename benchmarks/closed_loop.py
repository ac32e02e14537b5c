"""The closed loop: so many awaits in flight, each asking anew as soon as it has its answer."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.figures import percentile

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence


@dataclass(frozen=True)
class LoopSample:
    """One closed loop of some seconds."""

    per_second: float
    """Answers a second."""
    p50_us: float
    p99_us: float
    answers: int
    cpu_us: float
    """CPU time of this process an answer: what a busy machine does not distort."""


class WrongAnswerError(Exception):
    """A peer answered something else than what was written."""


async def closed_loop(
    ask: Callable[[int], Awaitable[object]],
    check: Callable[[int, object], bool],
    order: Sequence[int],
    *,
    in_flight: int,
    warm_up_s: float,
    seconds: float,
    answering_errors: tuple[type[Exception], ...] = (),
) -> LoopSample:
    """Asks for `order`'s items round and round and checks each answer.

    Errors of the types in `answering_errors` are answers.
    Answers given during the warm-up are checked, not counted. Raises
    `WrongAnswerError` at the first wrong one.
    """
    clock = time.perf_counter_ns
    begin = clock() + int(warm_up_s * 1e9)
    end = begin + int(seconds * 1e9)
    latencies: list[list[int]] = []
    asked_in_all = 0
    cpu_before = time.process_time()
    size = len(order)

    async def one(offset: int) -> None:
        nonlocal asked_in_all
        count = 0
        mine: list[int] = []
        latencies.append(mine)
        keep = mine.append
        position = offset
        asked = clock()
        while asked < end:
            item = order[position]
            position += 1
            if position == size:
                position = 0
            try:
                answer = await ask(item)
            except answering_errors as error:
                answer = error
            answered = clock()
            if not check(item, answer):
                raise WrongAnswerError(f"item {item}: {answer!r}")
            if begin <= answered < end:
                keep(answered - asked)
            asked = answered
            count += 1
        asked_in_all += count

    async with asyncio.TaskGroup() as group:
        for number in range(in_flight):
            group.create_task(one(number * size // in_flight))
    cpu_s = time.process_time() - cpu_before
    ordered = sorted(sample for mine in latencies for sample in mine)
    return LoopSample(
        per_second=len(ordered) / seconds,
        p50_us=percentile(ordered, 0.50) / 1000,
        p99_us=percentile(ordered, 0.99) / 1000,
        answers=len(ordered),
        cpu_us=cpu_s / max(1, asked_in_all) * 1e6,
    )
