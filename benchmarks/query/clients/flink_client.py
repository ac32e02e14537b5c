"""Flink's own Java client, in a JVM beside the JVM of the job."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

from benchmarks.closed_loop import LoopSample, WrongAnswerError
from benchmarks.peers.flink_program import FlinkProgram
from benchmarks.query.clients.load_generator import Operation
from benchmarks.query.dataset import REVISION_LENGTH

if TYPE_CHECKING:
    from benchmarks.query.dataset import Dataset


class FlinkLoadGenerator:
    """The JVM of the client; `async with` starts and ends it."""

    operations = frozenset({Operation.HITS, Operation.MISSES})

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
                    "FlinkClient",
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
        """Compiles the hot paths of both JVMs: a cold JVM has a third of the rate of a warm one."""
        for in_flight, share in ((64, 0.5), (1024, 0.4), (1, 0.1)):
            await self.closed_loop(
                Operation.HITS, in_flight, warm_up_s=0.0, seconds=seconds * share
            )

    async def closed_loop(
        self, operation: Operation, in_flight: int, *, warm_up_s: float, seconds: float
    ) -> LoopSample:
        """Runs one closed loop in the JVM."""
        found = await asyncio.to_thread(
            self._program.command, f"{operation} {in_flight} {warm_up_s} {seconds}"
        )
        return LoopSample(per_second=found["answers"] / seconds, **found)

    async def check_all(self, truth: list[str], revision: int) -> None:
        """Compares at once: the feeder reports a revision when the job has it in its state."""
        path = self._write("truth", [truth[number] for number in self._order])
        found = await asyncio.to_thread(self._program.command, f"check {path}")
        if found["wrong"]:
            raise WrongAnswerError(f"{self.name}, {found['wrong']} keys: {found['example']}")

    def _write(self, name: str, lines: list[str]) -> str:
        path = self._folder / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return str(path)
