"""What readers wrote down: every answer and every refusal, with its times."""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path


class What(enum.StrEnum):
    """What is asked for."""

    VALUE = "value"
    """The state under a key, as `History` has it."""
    EXPLAINED = "explained"
    """The state under a key, and its key group."""
    ENTRY = "entry"
    """One entry of a map."""
    EXISTS = "exists"
    """Whether anything is stored under a key, or under an entry of its map."""
    SIZE = "size"
    """How many elements are stored under a key."""
    SCAN = "scan"
    """A page: keys with their states, whether more follow, whether it says to be complete.

    With an uncommitted one, each key has its batch, too.
    """
    MEASURE = "measure"
    """The first and the last key group measured, and whether that says to be complete."""
    WINDOW = "window"
    """The state of one window of a key."""
    WINDOWS = "windows"
    """All live windows of a key."""
    TIMERS = "timers"
    """The pending timers of a key."""


class Mode(enum.StrEnum):
    """Which batch is asked for."""

    COMMITTED = "committed"
    UNCOMMITTED = "uncommitted"
    AT_LEAST = "at least"
    """The bound is a batch."""
    WITHIN = "within"
    """The bound is seconds."""


class Span(NamedTuple):
    """Which keys a page is of."""

    start: str | None = None
    """From this key on."""
    end: str | None = None
    """Before this key."""
    prefix: str | None = None
    limit: int | None = None
    keys_only: bool = False
    after: str | None = None
    """The page goes on behind this key; None: the first page."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One query, answered or refused; of many keys, what it said of one."""

    state: str
    key: str
    """Empty: of no single key."""
    started: float
    """Seconds since the epoch, before the query was sent."""
    ended: float
    """When it was answered."""
    version: int | None = None
    """The batch it was read at; None where the answer does not say: no value, or refused."""
    value: Any = None
    """As `expected` has it; None: the key has no value, or it was refused."""
    server: str = ""
    error: str = ""
    """Class of the refusal; empty: it was answered."""
    message: str = ""
    what: What = What.VALUE
    element: int | None = None
    """The entry of a map, or the start of the window, that is asked for; None: neither."""
    mode: Mode = Mode.COMMITTED
    bound: float = 0.0
    """Of the mode, where it has one."""
    commit_s: float = 0.0
    """When the answer says its batch was committed, in seconds since the epoch; 0: not yet."""
    cut: int = 0
    """Reads with the same number are of one cut, or pages of one scan; 0: it stands alone."""
    span: Span | None = None
    """Of a scan."""

    @property
    def refused(self) -> bool:
        """Whether there was no answer."""
        return bool(self.error)

    @property
    def goes_on(self) -> bool:
        """Whether it is a page behind another one, as of whose batch it is."""
        return self.span is not None and self.span.after is not None

    def __str__(self) -> str:
        what = f"{self.error}: {self.message}" if self.refused else f"{self.value}"
        at = "" if self.version is None else f" at batch {self.version} of {self.server}"
        mode = "" if self.mode == Mode.COMMITTED else f" {self.mode} {self.bound:g}"
        mode += f" of cut {self.cut}" if self.cut else ""
        asked = self.key if self.span is None else f"{tuple(self.span)}"
        if self.element is not None:
            asked += f", {self.element}"
        return (
            f"{self.what} of {self.state}[{asked}]{mode} asked "
            f"{self.started:.3f}-{self.ended:.3f}{at}: {what}"
        )


_FIELDS = tuple(field.name for field in fields(Read))


def to_lines(reads: Iterable[Read]) -> str:
    """Reads as lines of JSON."""
    return "".join(json.dumps([getattr(read, name) for name in _FIELDS]) + "\n" for read in reads)


def read_file(path: Path) -> Iterator[Read]:
    """The reads of a file; a last line that was cut by the reader's end is left out."""
    with path.open() as lines:
        for line in lines:
            if not line.endswith("\n"):
                return
            told = dict(zip(_FIELDS, json.loads(line), strict=True))
            told["what"], told["mode"] = What(told["what"]), Mode(told["mode"])
            if told["span"] is not None:
                told["span"] = Span(*told["span"])
            yield Read(**told)
