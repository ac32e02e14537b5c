"""Plain unary `GetKvState` as a Go program asks: built once by Go, then started as a process."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from benchmarks.line_process import LineProcess
from benchmarks.query.dataset import REVISION_LENGTH

if TYPE_CHECKING:
    from collections.abc import Iterable

PROJECT = Path(__file__).resolve().parents[1] / "peers" / "go"
PROGRAM = PROJECT / "build" / "asking"
METHOD = "/queryable_state.v1.QueryableState/GetKvState"
HOW_TO_GET_IT = "unary calls by the Python client alone: the Go client needs Go 1.25 (go.dev/dl)"


def build() -> str | None:
    """Builds the program where it is older than its sources; else says what is missing."""
    if shutil.which("go") is None:
        return HOW_TO_GET_IT
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


class GoAsking:
    """The Go process; `with` starts and ends it."""

    def __init__(self, address: str, keys: Iterable[tuple[bytes, bytes]]) -> None:
        """`keys`: serialized request and what the value begins with, in the order asked for."""
        self._address = address
        self._lines = [f"{request.hex()}\t{beginning.hex()}\n" for request, beginning in keys]
        self._stack = contextlib.ExitStack()
        self.version = ""
        """Of grpc-go, once started."""

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="benchmark-go-"))
            file = Path(folder, "keys")
            file.write_text("".join(self._lines))
            self._program = stack.enter_context(
                LineProcess(
                    "the Go client",
                    [str(PROGRAM), self._address, METHOD, str(file), str(REVISION_LENGTH)],
                    end_timeout_s=10,
                )
            )
            self.version = self._program.read()["grpc"]
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._stack.close()

    def loop(self, in_flight: int, *, warm_up_s: float, seconds: float) -> dict[str, Any]:
        """One closed loop; a failure or a wrong answer ends the process, which says why."""
        return self._program.command(f"loop {in_flight} {warm_up_s} {seconds}")

    def at_once(self, count: int) -> dict[str, Any]:
        """Calls begun together: how many were answered right, how many failed, and one of them."""
        return self._program.command(f"at_once {count}")
