"""Flink as its own Java client asks it, in a JVM beside the one that answers."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

from benchmarks.closed_loop import LoopSample, WrongAnswerError
from benchmarks.query.dataset import REVISION_LENGTH
from benchmarks.query.flink_programs import FlinkProgram
from benchmarks.query.question import Question

if TYPE_CHECKING:
    from benchmarks.query.dataset import Dataset


class FlinkAsking:
    """The JVM that asks; `async with` starts and ends it."""

    questions = frozenset({Question.HITS, Question.MISSES})

    def __init__(self, name: str, dataset: Dataset, *, port: int, job_id: str) -> None:
        self.name = name
        self._dataset = dataset
        self._order = dataset.order()
        self._port = port
        self._job_id = job_id
        self._stack = contextlib.ExitStack()

    async def __aenter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-flink-"))
            self._folder = Path(folder)
            data = self._dataset
            expected = self._write(
                "expected",
                [f"{data.keys[n]}\t{data.stems[n]}\t{data.missing_keys[n]}" for n in self._order],
            )
            self._program = stack.enter_context(
                FlinkProgram(
                    "FlinkAsking",
                    str(self._port),
                    self._job_id,
                    expected,
                    str(REVISION_LENGTH),
                    is_server=False,
                )
            )
            await asyncio.to_thread(self._program.read)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await asyncio.to_thread(self._stack.close)

    async def warm_up(self, seconds: float) -> None:
        """Compiles both JVMs' hot paths: a cold JVM answers a third of what a warm one does."""
        for in_flight, share in ((64, 0.5), (1024, 0.4), (1, 0.1)):
            await self.closed_loop(Question.HITS, in_flight, warm_up_s=0.0, seconds=seconds * share)

    async def closed_loop(
        self, question: Question, in_flight: int, *, warm_up_s: float, seconds: float
    ) -> LoopSample:
        """One closed loop of the JVM."""
        figures = await asyncio.to_thread(
            self._program.command, f"{question} {in_flight} {warm_up_s} {seconds}"
        )
        return LoopSample(
            per_second=figures["answers"] / seconds,
            p50_us=figures["p50_us"],
            p99_us=figures["p99_us"],
            answers=figures["answers"],
            cpu_us=figures["cpu_us"],
        )

    async def check_all(self, truth: list[str], revision: int) -> None:
        """Compares at once: the feeder says a revision when the job has it in its state."""
        path = self._write("truth", [truth[number] for number in self._order])
        found = await asyncio.to_thread(self._program.command, f"check {path}")
        if found["wrong"]:
            raise WrongAnswerError(f"{self.name}, {found['wrong']} keys: {found['example']}")

    def _write(self, name: str, lines: list[str]) -> str:
        path = self._folder / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return str(path)
