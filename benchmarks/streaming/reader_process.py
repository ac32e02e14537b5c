"""The reading process of `freshness`, as its parent sees it."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Self

_WAIT_S = 120.0


@dataclass(frozen=True)
class Seen:
    """One value, the first time it was read."""

    batch: int
    seen_us: int


class Reader:
    """Starts the process and gathers what it sees, until it is closed."""

    def __init__(self, proxy: str, job: str, name: str, key: str) -> None:
        self.seen: dict[str, dict[int, Seen]] = {"committed": {}, "uncommitted": {}}
        """By consistency and value."""
        self._changed = threading.Condition()
        self._ended = False
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.streaming.freshness_reader", proxy, job, name, key],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._thread = threading.Thread(target=self._gather, daemon=True)
        self._thread.start()

    def wait_for(self, consistency: str, value: int) -> None:
        """Waits until a value at least as new was read."""
        with self._changed:
            self._changed.wait_for(
                lambda: self._ended or max(self.seen[consistency], default=-1) >= value, _WAIT_S
            )
            if max(self.seen[consistency], default=-1) < value:
                why = "the reader has ended" if self._ended else f"none in {_WAIT_S:g} s"
                raise TimeoutError(f"no {consistency} answer with {value}: {why}")

    def _gather(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            with self._changed:
                seen = Seen(told["batch"], told["seen_us"])
                self.seen[told["of"]].setdefault(told["value"], seen)
                self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()
        self._thread.join()
