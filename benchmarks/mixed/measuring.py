"""The windows of one run: without look-ups, with one in flight, with many, and back again."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.closed_loop import closed_loop
from benchmarks.gc_modes import collecting
from benchmarks.mixed.cpu_by_part import MARK, PARTS, cpu_by_part
from benchmarks.mixed.history import Answers, History
from benchmarks.streaming.runs import WrongTotalsError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from benchmarks.closed_loop import LoopSample
    from benchmarks.mixed.clients import Client
    from benchmarks.mixed.job_process import JobProcess


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The windows of a run and their length."""

    in_flight: tuple[int, ...]
    """Look-ups in flight of each window; 0: none."""
    seconds: float
    settle_s: float
    """Seconds before each window, already under its look-ups."""

    def turns(self, round_number: int) -> list[int]:
        """The windows of one run in order: there and back, because a JVM still gets faster.

        Every other round starts with the last.
        """
        there = list(self.in_flight if round_number % 2 == 0 else reversed(self.in_flight))
        return there + there[::-1]


@dataclass(frozen=True, kw_only=True)
class Window:
    """Some seconds of a job under a number of look-ups in flight."""

    in_flight: int
    rows_per_second: float
    look_ups: LoopSample | None
    cpus: Mapping[str, float]
    """CPUs kept busy by each part of the run."""


async def measure_run(
    job: JobProcess, client: Client, history: History, plan: Plan, round_number: int
) -> list[Window]:
    """Runs the windows of one job; raises if an answer, or any key at the end, is wrong."""
    order = history.order()
    await asyncio.to_thread(job.wait_warm)
    spans: list[tuple[int, float, LoopSample | None, Mapping[str, float]]] = []
    answers = Answers()
    for in_flight in plan.turns(round_number):
        before, began_s = cpu_by_part(os.environ[MARK]), time.time()
        sample = await _loop(client, answers, order, in_flight, plan)
        passed_s, after = time.time() - began_s, cpu_by_part(os.environ[MARK])
        cpus = {part: (after[part] - before[part]) / passed_s for part in PARTS}
        spans.append((in_flight, began_s + plan.settle_s, sample, cpus))
    ended = await asyncio.to_thread(job.finish)
    batches, supplied = ended["batches"], ended["supplied"]
    if len(batches) != supplied:
        raise WrongTotalsError(f"the job ran {len(batches)} of {supplied} supplied batches")
    history.batches_of(answers, supplied)
    history.check_end(await client.get_all(), supplied)
    return [
        Window(
            in_flight=in_flight,
            rows_per_second=rows_within(batches, began_s, began_s + plan.seconds) / plan.seconds,
            look_ups=sample,
            cpus=cpus,
        )
        for in_flight, began_s, sample, cpus in spans
    ]


async def _loop(
    client: Client, answers: Answers, order: Sequence[int], in_flight: int, plan: Plan
) -> LoopSample | None:
    if not in_flight:
        await asyncio.sleep(plan.settle_s + plan.seconds)
        return None

    def is_right(number: int, answer: object) -> bool:
        sums = client.sums(answer)
        if sums is None:
            return False
        answers.keep(number, *sums)
        return True

    with collecting():
        return await closed_loop(
            client.get,
            is_right,
            order,
            in_flight=in_flight,
            warm_up_s=plan.settle_s,
            seconds=plan.seconds,
        )


def rows_within(batches: Sequence[Mapping[str, Any]], began_s: float, ended_s: float) -> float:
    """Rows of the batches, each counted by the share of it that lies in the window.

    A batch lasts until the next one begins, the last one for its trigger duration.
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
