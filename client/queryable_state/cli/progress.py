"""Progress of long work as a bar on the terminal."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Self, TextIO

if TYPE_CHECKING:
    from types import TracebackType

_CELLS = 30
_CLEAR_LINE = "\r\x1b[K"


class ProgressBar:
    """One line on stderr that is rewritten, and removed at the end of `with`.

    Nothing is written if stderr is no terminal, so that logs and pipes have no control characters.
    """

    def __init__(self, what: str, *, stream: TextIO | None = None) -> None:
        self._what = what
        self._stream = sys.stderr if stream is None else stream
        self._line = ""
        self.is_shown = self._stream.isatty()
        """True if stderr is a terminal."""

    def show(self, done: int, total: int, text: str = "") -> None:
        """Draws `done` of `total`; without a share if `total` is 0. `text` stands behind it."""
        if not self.is_shown:
            return
        parts = [self._what]
        if total > 0:
            share = min(1.0, done / total)
            cells = int(share * _CELLS)
            parts.append(f"[{'#' * cells}{' ' * (_CELLS - cells)}] {int(100 * share):3d} %")
        line = " ".join([*parts, text]).rstrip()
        if line != self._line:
            self._line = line
            self._write(_CLEAR_LINE + line)

    def clear(self) -> None:
        """Removes the bar, so that another line can be written in its place."""
        if self._line:
            self._line = ""
            self._write(_CLEAR_LINE)

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.clear()
