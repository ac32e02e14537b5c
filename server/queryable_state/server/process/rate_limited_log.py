"""A log of what clients cause: at most one line a cause in a period, with a count of the others."""

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
    left_out: int = 0


class RateLimitedLog:
    """Writes the first line of a cause at once, then one a period. Thread-safe.

    Causes are few and named by the code, never by a client: each is remembered for good.
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
        """Logs a line, with the trace of `problem` where one is given, or counts it."""
        now_s = self._clock()
        with self._lock:
            known = self._causes.get(cause)
            if known is None:
                known = self._causes[cause] = _Cause(now_s)
            if now_s < known.next_s:
                known.left_out += 1
                return
            left_out, known.left_out = known.left_out, 0
            known.next_s = now_s + self._every_s
        if left_out:
            text += f" (and {left_out:,} more like it since the last such line)"
        self._log.log(level, text, *values, exc_info=problem)
