"""The feeder as the benchmark sees it: a process that loads a peer and writes on command."""

from __future__ import annotations

import sys
from typing import Any, Self

from benchmarks.line_process import LineProcess


class Feeding(LineProcess):
    """One feeder process, until the block is left."""

    def __init__(self, kind: str, *arguments: str) -> None:
        super().__init__(
            f"the feeder of {kind}",
            [sys.executable, "-m", "benchmarks.query.feeder", kind, *arguments],
            end_timeout_s=30,
        )
        self.kind = kind
        self.description: dict[str, Any] = {}
        """What the feeder said about where to ask."""
        self.revision = 0
        """The revision written last, as of the last command."""

    def __enter__(self) -> Self:
        try:
            self.description = self.read()
        except BaseException:
            self.__exit__()
            raise
        return self

    def run(self) -> None:
        """Begins to write."""
        self.revision = self.command("run")["revision"]

    def pause(self) -> None:
        """Ends writing; `revision` is then what can be read."""
        self.revision = self.command("pause")["revision"]
