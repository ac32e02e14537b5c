"""Stand-alone proxies as the documentation starts them."""

from __future__ import annotations

import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Self

from tests.chaos.processes import kill, until

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_START_S = 60.0


class Proxy:
    """One `queryable-state proxy`, which may be restarted on its port."""

    def __init__(self, folder: Path, port: int, frame_port: int, options: Sequence[str]) -> None:
        folder.mkdir(parents=True)
        self.port = port
        self.address = f"127.0.0.1:{port}"
        self.log = folder / "log"
        self._command = [
            *(sys.executable, "-m", "queryable_state.cli", "proxy"),
            *("--host", "127.0.0.1"),
            *("--port", str(port)),
            *("--frame-port", str(frame_port)),
            *("--lame-duck", "2"),
            *options,
        ]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        if self._process is not None:
            kill(self._process.pid)
            self._process.wait()

    def start(self) -> None:
        """Starts the process; returns when it listens."""
        line = f"proxy at {self.address}".encode()
        starts = self._starts(line)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        process = self._process

        def listens() -> bool:
            assert process.poll() is None, f"the proxy has ended:\n{self.tail()}"
            return self._starts(line) > starts

        until(listens, _START_S, "the start of a proxy")

    def restart(self) -> None:
        """SIGTERM, an orderly end, a new process on the same port."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(30) == 0, self.tail()
        self.start()

    def require_running(self) -> None:
        """Fails with the log if the process has ended."""
        assert self._process is not None
        assert self._process.poll() is None, f"the proxy has ended:\n{self.tail()}"

    def tail(self) -> str:
        """The end of the log, for a failed test."""
        return self.log.read_text(errors="replace")[-3000:]

    def _starts(self, line: bytes) -> int:
        return self.log.read_bytes().count(line) if self.log.exists() else 0
