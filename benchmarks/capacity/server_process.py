"""The process of a state server: its memory, CPU time and files."""

from __future__ import annotations

import time
from pathlib import Path

import psutil

_QUIET_S = 4.0
_QUIET_SHARE = 0.04
_LOOK_S = 1.0


class ServerProcess:
    """One state server, by its pid."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)

    @property
    def rss_bytes(self) -> int:
        """Resident memory now."""
        return int(self._process.memory_info().rss)

    @property
    def peak_rss_bytes(self) -> int:
        """The peak of resident memory since the start or `forget_peak`."""
        for line in Path(f"/proc/{self._process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
        return 0

    def forget_peak(self) -> None:
        """Resets `peak_rss_bytes`."""
        Path(f"/proc/{self._process.pid}/clear_refs").write_text("5")

    @property
    def disk_bytes(self) -> int:
        """The size on disk of all files in its folder."""
        return sum(
            path.stat().st_blocks * 512
            for path in Path(self._process.cwd()).rglob("*")
            if path.is_file()
        )

    def wait_quiet(self, timeout_s: float = 300.0) -> None:
        """Returns once it uses no CPU time: all flushes and compactions are done.

        Raises `TimeoutError` if it stays busy.
        """
        deadline = time.monotonic() + timeout_s
        quiet_s, before_s = 0.0, self._cpu_s()
        while quiet_s < _QUIET_S:
            if time.monotonic() > deadline:
                raise TimeoutError(f"the state server is still busy after {timeout_s:g} s")
            time.sleep(_LOOK_S)
            now_s = self._cpu_s()
            quiet_s = quiet_s + _LOOK_S if now_s - before_s < _QUIET_SHARE * _LOOK_S else 0.0
            before_s = now_s

    def _cpu_s(self) -> float:
        times = self._process.cpu_times()
        return float(times.user + times.system)
