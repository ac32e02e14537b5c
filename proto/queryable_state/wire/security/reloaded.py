"""A value made of files, made again when the files change."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING, Generic, TypeVar

from queryable_state.wire.security.file_stamp import FileStamp

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

_log = logging.getLogger(__name__)

_Value = TypeVar("_Value")

# A file may become readable without a change of its own, as by the rights of its folder.
_RETRY_S = 5.0


class Reloaded(Generic[_Value]):
    """The value of `make()`, which reads `paths`. Thread-safe.

    `get` makes it again if a file has changed. If `make` fails, the old value stays, one ERROR for
    each cause is logged, and `get` tries again at the next change, or after a while.
    """

    def __init__(
        self,
        paths: Sequence[str],
        make: Callable[[], _Value],
        *,
        look_s: float = 0.0,
        retry_s: float = _RETRY_S,
    ) -> None:
        """Makes the first value and raises what `make` raises.

        `look_s`: least seconds between two looks at the files. `retry_s`: seconds until `make` is
        called again after it failed.
        """
        self._paths = tuple(path for path in paths if path)
        self._make = make
        self._look_s = look_s
        self._retry_s = retry_s
        self._tried_s = 0.0
        self._problem = ""
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
                self._problem = ""
                self._renew(now_s)
            elif self._problem and now_s - self._tried_s >= self._retry_s:
                self._renew(now_s)
        finally:
            self._lock.release()
        return self._value

    def _renew(self, now_s: float) -> None:
        self._tried_s = now_s
        try:
            self._value = self._make()
        except Exception as problem:  # noqa: BLE001 - whatever it is, the old value is still good
            text = str(problem) or repr(problem)
            if text != self._problem:
                _log.error("changed files are not used, the old ones stay in use: %s", text)
            self._problem = text
        else:
            self._problem = ""
            self.generation += 1
            _log.info("reloaded %s", ", ".join(self._paths))

    def _look(self) -> tuple[FileStamp | None, ...]:
        return tuple(map(FileStamp.of, self._paths))
