"""Windows: finite groups of the elements of a key, with PyFlink's names."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final, Protocol

from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.keys import time_window

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_LONG: Final = (1 << 63) - 1
"""The last timestamp of a window without end."""


class Window(ABC):
    """A group of elements. Windows are equal by value, and hashable."""

    @abstractmethod
    def max_timestamp(self) -> int:
        """The greatest timestamp that belongs to the window, in milliseconds since the epoch."""


class Merging(Protocol):
    """Callback of `merge_windows`: receives each set of windows to merge."""

    def merge(self, to_be_merged: Any, merge_result: Any) -> object:
        """Merges windows into one that covers them."""
        ...


class TimeWindow(time_window.TimeWindow, Window):
    """The time from `start` (inclusive) to `end` (exclusive), in milliseconds since the epoch."""

    __slots__ = ()

    def cover(self, other: time_window.TimeWindow) -> TimeWindow:
        """The smallest window that has both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    @staticmethod
    def get_window_start_with_offset(timestamp: int, offset: int, window_size: int) -> int:
        """The start of the window that has `timestamp`; all arguments are milliseconds.

        Windows of `window_size` start at `offset` and at its multiples from there.
        """
        return timestamp - (timestamp - offset) % window_size

    @staticmethod
    def merge_windows(windows: Iterable[TimeWindow], callback: Merging) -> None:
        """Calls `callback.merge(group, cover)` for each group of windows that overlap or touch."""
        cover: TimeWindow | None = None
        group: set[TimeWindow] = set()
        for window in sorted(windows):
            if cover is not None and cover.intersects(window):
                cover = cover.cover(window)
                group.add(window)
                continue
            if cover is not None and len(group) > 1:
                callback.merge(group, cover)
            cover, group = window, {window}
        if cover is not None and len(group) > 1:
            callback.merge(group, cover)


class CountWindow(Window):
    """The window with this number among the count windows of a key, from 0."""

    __slots__ = ("id",)

    def __init__(self, id: int) -> None:  # noqa: A002 - PyFlink's name
        if type(id) is not int or not 0 <= id < MAX_LONG:
            raise InvalidRequestError(
                f"the id of a CountWindow is an int from 0 to 2**63 - 2, not {id!r}"
            )
        self.id = id

    def max_timestamp(self) -> int:
        return MAX_LONG

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CountWindow) and self.id == other.id

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        return f"CountWindow(id={self.id})"


class GlobalWindow(Window):
    """The only window of all elements of a key."""

    __slots__ = ()

    @staticmethod
    def get() -> GlobalWindow:
        """The window; all instances are equal."""
        return GlobalWindow()

    def max_timestamp(self) -> int:
        return MAX_LONG

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalWindow)

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "GlobalWindow"
