"""The closed loop: a fixed number of look-ups in flight, each followed at once by the next."""

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
    p999_us: float
    answers: int
    cpu_us: float
    """CPU time of the client process per answer."""


class WrongAnswerError(Exception):
    """A peer's answer differs from what was written."""


async def closed_loop(
    look_up: Callable[[int], Awaitable[object]],
    is_right: Callable[[int, object], bool],
    order: Sequence[int],
    *,
    in_flight: int,
    warm_up_s: float,
    seconds: float,
    answering_errors: tuple[type[Exception], ...] = (),
) -> LoopSample:
    """Looks up the items of `order` again and again and checks each answer.

    Errors of the types in `answering_errors` are answers. Answers of the warm-up are checked but
    not counted. Raises `WrongAnswerError` at the first wrong answer.
    """
    clock = time.perf_counter_ns
    begin = clock() + int(warm_up_s * 1e9)
    end = begin + int(seconds * 1e9)
    latencies: list[list[int]] = []
    total = 0
    cpu_before = time.process_time()
    size = len(order)

    async def run_one(offset: int) -> None:
        nonlocal total
        count = 0
        own: list[int] = []
        latencies.append(own)
        keep = own.append
        position = offset
        sent = clock()
        while sent < end:
            item = order[position]
            position += 1
            if position == size:
                position = 0
            try:
                answer = await look_up(item)
            except answering_errors as error:
                answer = error
            answered = clock()
            if not is_right(item, answer):
                raise WrongAnswerError(f"item {item}: {answer!r}")
            if begin <= answered < end:
                keep(answered - sent)
            sent = answered
            count += 1
        total += count

    async with asyncio.TaskGroup() as group:
        for number in range(in_flight):
            group.create_task(run_one(number * size // in_flight))
    cpu_s = time.process_time() - cpu_before
    ordered = sorted(sample for own in latencies for sample in own)
    return LoopSample(
        per_second=len(ordered) / seconds,
        p50_us=percentile(ordered, 0.50) / 1000,
        p99_us=percentile(ordered, 0.99) / 1000,
        p999_us=percentile(ordered, 0.999) / 1000,
        answers=len(ordered),
        cpu_us=cpu_s / max(1, total) * 1e6,
    )
