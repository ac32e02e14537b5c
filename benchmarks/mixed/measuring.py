"""Takes one job through its windows: no queries, one in flight, many, and back again."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.closed_loop import closed_loop
from benchmarks.mixed.cpu_times import MARK, PARTS, cpu_by_part
from benchmarks.mixed.history import Answers, History
from benchmarks.streaming.runs import WrongTotalsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.closed_loop import LoopSample
    from benchmarks.mixed.askers import Asker
    from benchmarks.mixed.running import RunningJob


@dataclass(frozen=True, kw_only=True)
class Plan:
    """How long and how often."""

    in_flight: tuple[int, ...]
    """Awaits of each window; 0: nobody asks."""
    seconds: float
    settle_s: float
    """Before each window, with its queries already asked."""

    def turns(self, round_number: int) -> list[int]:
        """The windows of one run: there and back, so that a JVM that still warms favours none.

        Every other round begins with the last.
        """
        there = list(self.in_flight if round_number % 2 == 0 else reversed(self.in_flight))
        return there + there[::-1]


@dataclass(frozen=True, kw_only=True)
class Window:
    """Some seconds of a job beside so many queries."""

    in_flight: int
    rows_per_second: float
    queries: LoopSample | None
    cpus: Mapping[str, float]
    """CPUs each part of the run kept busy."""


async def measure_run(
    job: RunningJob, asker: Asker, history: History, plan: Plan, round_number: int
) -> list[Window]:
    """The windows of one run. Raises where an answer, or at the end any key, is wrong."""
    order = history.order()
    await asyncio.to_thread(job.wait_warm)
    spans: list[tuple[int, float, LoopSample | None, Mapping[str, float]]] = []
    answers = Answers()
    for in_flight in plan.turns(round_number):
        before, began_s = cpu_by_part(os.environ[MARK]), time.time()
        sample = await _loop(asker, answers, order, in_flight, plan)
        passed_s, after = time.time() - began_s, cpu_by_part(os.environ[MARK])
        cpus = {part: (after[part] - before[part]) / passed_s for part in PARTS}
        spans.append((in_flight, began_s + plan.settle_s, sample, cpus))
    ended = await asyncio.to_thread(job.finish)
    batches, given = ended["batches"], ended["given"]
    if len(batches) != given:
        raise WrongTotalsError(f"{given} batches were given, {len(batches)} were run")
    history.batches_of(answers, given)
    history.check_end(await asker.ask_all(), given)
    return [
        Window(
            in_flight=in_flight,
            rows_per_second=rows_within(batches, began_s, began_s + plan.seconds) / plan.seconds,
            queries=sample,
            cpus=cpus,
        )
        for in_flight, began_s, sample, cpus in spans
    ]


async def _loop(
    asker: Asker, answers: Answers, order: Sequence[int], in_flight: int, plan: Plan
) -> LoopSample | None:
    if not in_flight:
        await asyncio.sleep(plan.settle_s + plan.seconds)
        return None

    def check(number: int, answer: object) -> bool:
        sums = asker.sums(answer)
        if sums is None:
            return False
        answers.keep(number, *sums)
        return True

    gc.collect()
    gc.freeze()
    try:
        return await closed_loop(
            asker.ask,
            check,
            order,
            in_flight=in_flight,
            warm_up_s=plan.settle_s,
            seconds=plan.seconds,
        )
    finally:
        gc.unfreeze()


def rows_within(batches: Sequence[Mapping[str, Any]], began_s: float, ended_s: float) -> float:
    """Rows of the batches by the share of each that lies in the window.

    A batch lasts until the next begins, the last one as long as Spark says.
    """
    rows = 0.0
    for number, batch in enumerate(batches):
        first = batch["began_s"]
        if number + 1 < len(batches):
            last = batches[number + 1]["began_s"]
        else:
            last = first + batch["ms"] / 1000
        shared = min(last, ended_s) - max(first, began_s)
        if shared > 0:
            rows += batch["rows"] * shared / (last - first)
    return rows
