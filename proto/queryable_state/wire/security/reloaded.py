"""A value made of files, made again when the files change."""

from __future__ import annotations

import logging
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_log = logging.getLogger(__name__)

_Value = TypeVar("_Value")


class Reloaded(Generic[_Value]):
    """The value of `make()`, which reads `paths`. Thread-safe.

    `get` makes it again if a file has changed. A change that `make` refuses keeps the old value and
    logs one ERROR; the next change is tried again.
    """

    def __init__(
        self, paths: Sequence[str], make: Callable[[], _Value], *, look_s: float = 0.0
    ) -> None:
        """Makes the first value and raises what `make` raises.

        `look_s`: least seconds between two looks at the files.
        """
        self._paths = tuple(path for path in paths if path)
        self._make = make
        self._look_s = look_s
        self._lock = threading.Lock()
        self._seen = self._look()
        self._looked_s = time.monotonic()
        self._value = make()
        self.generation = 0
        """Number of times that the value was made again."""

    def get(self) -> _Value:
        """The value of the current files."""
        now_s = time.monotonic()
        if now_s - self._looked_s < self._look_s or not self._lock.acquire(blocking=False):
            return self._value
        try:
            self._looked_s = now_s
            seen = self._look()
            if seen != self._seen:
                # A change while the files are read is seen by the next look.
                self._seen = seen
                self._renew()
        finally:
            self._lock.release()
        return self._value

    def _renew(self) -> None:
        try:
            self._value = self._make()
        except (QueryableStateError, OSError) as problem:
            _log.error("changed files are not used, the old ones stay in use: %s", problem)
        else:
            self.generation += 1
            _log.info("reloaded %s", ", ".join(self._paths))

    def _look(self) -> tuple[tuple[int, int, int] | None, ...]:
        return tuple(map(_look_at, self._paths))


def _look_at(path: str) -> tuple[int, int, int] | None:
    try:
        stat = Path(path).stat()
    except OSError:
        return None
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
