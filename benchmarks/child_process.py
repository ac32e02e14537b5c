"""Child processes that end with the block that started them.

A block that is left by an exception ends its child by SIGTERM, so that the child can end its own
children. A child that does not end in time is killed.
"""

from __future__ import annotations

import json
import socket
import subprocess
from typing import IO, TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import TracebackType

_END_TIMEOUT_S = 60.0


def run_child(
    command: Sequence[str], *, captures: bool = True, stderr: IO[str] | None = None
) -> tuple[int, str]:
    """Runs a child to its end; returns its exit code and its captured standard output."""
    stdout = subprocess.PIPE if captures else None
    with subprocess.Popen(command, stdout=stdout, stderr=stderr, text=True) as process:
        try:
            output, _ = process.communicate()
        except BaseException:
            process.terminate()
            _wait(process, _END_TIMEOUT_S)
            raise
    return process.returncode, output or ""


def free_port() -> int:
    """A local TCP port without a listener, for a server that cannot choose a port itself."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class LineProcess:
    """A child that takes commands as lines and answers each with one line of JSON.

    It ends when its standard input is closed.
    """

    def __init__(
        self,
        title: str,
        command: Sequence[str],
        *,
        end_timeout_s: float = _END_TIMEOUT_S,
        own_session: bool = False,
        stderr: IO[str] | None = None,
    ) -> None:
        """`own_session` gives it a scheduling group of its own, as state servers have."""
        self._title = title
        self._end_timeout_s = end_timeout_s
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            start_new_session=own_session,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        if kind is not None:
            self._process.terminate()
        _wait(self._process, self._end_timeout_s)
        self._process.stdout.close()

    def command(self, line: str) -> dict[str, Any]:
        """Sends one line; returns the answer to it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self.read()

    def read(self) -> dict[str, Any]:
        """The next answer; raises `RuntimeError` if the child has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._title} ended; {self.reason_of_end()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def reason_of_end(self) -> str:
        """The text that tells a reader why the child ended, or where to find it."""
        return "its error is printed above"


def _wait(process: subprocess.Popen[str], timeout_s: float) -> None:
    try:
        process.wait(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
