"""A process that is told what to do in lines, and answers with lines of JSON."""

from __future__ import annotations

import json
import subprocess
from typing import IO, TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Sequence


class LineProcess:
    """One such process, until the block is left: it ends when nothing more can come."""

    def __init__(
        self,
        what: str,
        command: Sequence[str],
        *,
        end_timeout_s: float,
        own_session: bool = False,
        stderr: IO[str] | None = None,
    ) -> None:
        """`own_session`: a scheduling group of its own, as redis-server and state servers have."""
        self._what = what
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

    def __exit__(self, *exc_info: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=self._end_timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def command(self, line: str) -> dict[str, Any]:
        """Sends one line; returns the answer to it."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        return self.read()

    def read(self) -> dict[str, Any]:
        """The next line it says; `RuntimeError` where it has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self._what} ended; {self.last_words()}")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def last_words(self) -> str:
        """Where to see why it ended."""
        return "its error stands above"
