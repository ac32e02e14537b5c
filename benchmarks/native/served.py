"""A server process of `queryable-state serve --spark-checkpoint`, its memory and its start."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Self

import psutil

if TYPE_CHECKING:
    from types import TracebackType

_END_S = 30.0


class ServedCheckpoint:
    """The server of one checkpoint, until the block ends."""

    def __init__(self, checkpoint: str, *options: str) -> None:
        began = time.perf_counter()
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "queryable_state.cli", "serve"),
                *("--spark-checkpoint", checkpoint, "--name", "query", "--web", "off"),
                *("--port", "0", "--frame-port", "0", *options),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        self.start_s = time.perf_counter() - began
        """From the start of the process to its first answer, the load of all state included."""
        self.address = line.rstrip().rpartition(" at ")[2]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @property
    def rss_bytes(self) -> int:
        """Resident memory now."""
        return int(psutil.Process(self._process.pid).memory_info().rss)

    @property
    def cpu_s(self) -> float:
        """CPU time so far."""
        times = psutil.Process(self._process.pid).cpu_times()
        return float(times.user + times.system)
