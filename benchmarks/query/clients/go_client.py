"""The Go client of plain unary `GetKvState` calls: its build and its process."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Self

from benchmarks.child_process import LineProcess
from benchmarks.closed_loop import LoopSample
from benchmarks.query.dataset import REVISION_LENGTH

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.query.clients.unary import UnaryKeys

PROJECT = Path(__file__).resolve().parents[2] / "peers" / "go"
PROGRAM = PROJECT / "build" / "client"
METHOD = "/queryable_state.v1.QueryableState/GetKvState"
NOT_INSTALLED = "unary calls by the Python client alone: the Go client needs Go 1.25 (go.dev/dl)"


def build() -> str | None:
    """Builds the program if it is older than its sources; returns an error or None."""
    if shutil.which("go") is None:
        return NOT_INSTALLED
    newest = max(source.stat().st_mtime for source in PROJECT.glob("*.*"))
    if not PROGRAM.exists() or PROGRAM.stat().st_mtime < newest:
        ended = subprocess.run(
            ["go", "build", "-buildvcs=false", "-o", PROGRAM, "."],
            cwd=PROJECT,
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode:
            return (
                "unary calls by the Python client alone: "
                f"go build in {PROJECT} failed:\n{ended.stderr[-2000:]}"
            )
    return None


class GoClient:
    """grpc-go in a process of its own; `async with` starts and ends it."""

    def __init__(self, address: str, keys: UnaryKeys, order: Sequence[int]) -> None:
        self.name = "Go"
        self._address = address
        self._lines = [
            f"{keys.requests[number].SerializeToString().hex()}\t{keys.beginnings[number].hex()}\n"
            for number in order
        ]
        self._stack = contextlib.ExitStack()

    async def __aenter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-go-"))
            file = self._write_keys(Path(folder))
            self._program = stack.enter_context(
                LineProcess(
                    "the Go client",
                    [str(PROGRAM), self._address, METHOD, str(file), str(REVISION_LENGTH)],
                    end_timeout_s=10,
                )
            )
            version = (await asyncio.to_thread(self._program.read))["grpc"]
            self.name = f"Go, grpc-go {version}"
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await asyncio.to_thread(self._stack.close)

    async def loop(self, in_flight: int, *, warm_up_s: float, seconds: float) -> LoopSample:
        """Runs one closed loop; at a failure or a wrong answer the process ends with its reason."""
        found = await asyncio.to_thread(
            self._program.command, f"loop {in_flight} {warm_up_s} {seconds}"
        )
        return LoopSample(per_second=found["answers"] / seconds, **found)

    async def failures(self, at_once: int) -> int:
        """Starts calls together and counts the failed and wrong ones."""
        outcome = await asyncio.to_thread(self._program.command, f"at_once {at_once}")
        return int(outcome["failures"])

    def _write_keys(self, folder: Path) -> Path:
        file = folder / "keys"
        file.write_text("".join(self._lines))
        return file
