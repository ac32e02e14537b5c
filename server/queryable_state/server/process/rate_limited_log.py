"""Rate-limited log: at most one line a cause in a period, with a count of the skipped lines."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging
    from collections.abc import Callable

_EVERY_S = 10.0


@dataclass
class _Cause:
    next_s: float
    skipped: int = 0


class RateLimitedLog:
    """Writes the first line of a cause at once, then one line a period. Thread-safe.

    The code names the causes, never a client: each is kept in memory for good.
    """

    def __init__(
        self,
        log: logging.Logger,
        *,
        every_s: float = _EVERY_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log
        self._every_s = every_s
        self._clock = clock
        self._lock = threading.Lock()
        self._causes: dict[str, _Cause] = {}

    def write(
        self, level: int, cause: str, text: str, *values: object, problem: Exception | None = None
    ) -> None:
        """Logs a line, with the trace of `problem` if given, or counts it as skipped."""
        now_s = self._clock()
        with self._lock:
            known = self._causes.get(cause)
            if known is None:
                known = self._causes[cause] = _Cause(now_s)
            if now_s < known.next_s:
                known.skipped += 1
                return
            skipped, known.skipped = known.skipped, 0
            known.next_s = now_s + self._every_s
        if skipped:
            text += f" (and {skipped:,} more like it since the last such line)"
        self._log.log(level, text, *values, exc_info=problem)
