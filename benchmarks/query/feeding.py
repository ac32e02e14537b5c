"""The feeder as the benchmark sees it: a process that loads a peer and writes on command."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from types import TracebackType


class Feeding:
    """One feeder process, until the block is left."""

    def __init__(self, kind: str, *arguments: str) -> None:
        self.kind = kind
        self.description: dict[str, Any] = {}
        """What the feeder said about where to ask."""
        self.revision = 0
        """The revision written last, as of the last command."""
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.query.feeder", kind, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __enter__(self) -> Self:
        try:
            self.description = self._read()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._end()

    def run(self) -> None:
        """Begins to write."""
        self._command("run")

    def pause(self) -> None:
        """Ends writing; `revision` is then what can be read."""
        self._command("pause")

    def _command(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{word}\n")
        self._process.stdin.flush()
        self.revision = self._read()["revision"]

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the feeder of {self.kind} ended; its error stands above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(timeout=30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
