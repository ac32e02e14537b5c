"""The live windows of one key that are merged, and where the state of each is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from queryable_state.streaming.windows.assigner import MergingWindowAssigner
from queryable_state.streaming.windows.session_windows import SessionWindows
from queryable_state.streaming.windows.window import TimeWindow

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from queryable_state.streaming.state import MapState


class MergeFunction(Protocol):
    """Merges timers, triggers and state of windows."""

    def __call__(
        self,
        result: TimeWindow,
        merged: Sequence[TimeWindow],
        state_window: TimeWindow,
        merged_state_windows: Sequence[TimeWindow],
    ) -> None:
        """`merged` are the windows that become `result`; the state of `result` is under
        `state_window`, to which that of `merged_state_windows` is added."""
        ...


class _Merges(MergingWindowAssigner.MergeCallback[TimeWindow]):
    """Collects the groups of windows to merge."""

    def __init__(self) -> None:
        self.groups: list[tuple[TimeWindow, set[TimeWindow]]] = []

    def merge(self, to_be_merged: Iterable[TimeWindow], merge_result: TimeWindow) -> None:
        self.groups.append((merge_result, set(to_be_merged)))


class MergingWindowSet:
    """From each live window of a key to the window under which the state of its elements is.

    In a batch, state stays in its place when a window grows. At the end of the batch, the state of
    `moves` moves: committed state is under the live window itself, where queries look.
    """

    def __init__(self, assigner: MergingWindowAssigner, stored: MapState[Any, Any]) -> None:
        """`stored` is the mapping of the current key."""
        self._assigner = assigner
        self._stored = {_window(key): _window(value) for key, value in stored.items()}
        self._mapping = dict(self._stored)

    @property
    def windows(self) -> list[TimeWindow]:
        """The live windows, and those under which state is stored."""
        return list(dict.fromkeys([*self._mapping, *self._mapping.values()]))

    def state_window(self, window: TimeWindow) -> TimeWindow | None:
        """The window under which the state of a live window is; None if it is not live."""
        return self._mapping.get(window)

    def moves(self) -> list[tuple[TimeWindow, TimeWindow]]:
        """Each live window whose state is under another window, and that other window.

        From now on the state of each live window is expected under the window itself.
        """
        moves = [(window, under) for window, under in self._mapping.items() if window != under]
        self._mapping.update((window, window) for window, _ in moves)
        return moves

    def retire(self, window: TimeWindow) -> None:
        """Removes a live window."""
        del self._mapping[window]

    def add(self, new: TimeWindow, merge: MergeFunction) -> TimeWindow:
        """Adds the window of an element; returns the live window that covers it.

        Calls `merge` if live windows grow or become one.
        """
        if new in self._mapping:
            return new
        covering = new
        for result, group in self._groups(new):
            if new in group:
                covering = result
            merged = sorted(window for window in group if window in self._mapping)
            if not merged or merged == [result]:
                continue
            state_windows = [self._mapping.pop(window) for window in merged]
            self._mapping[result] = state_windows[0]
            merge(result, merged, state_windows[0], state_windows[1:])
        if covering not in self._mapping:
            self._mapping[covering] = covering
        return covering

    def _groups(self, new: TimeWindow) -> list[tuple[TimeWindow, set[TimeWindow]]]:
        """The windows to merge, now that there is a new one, each with what they become."""
        if type(self._assigner).merge_windows is not SessionWindows.merge_windows:
            merges = _Merges()
            self._assigner.merge_windows([*self._mapping, new], merges)
            return merges.groups
        # The live sessions neither overlap nor touch.
        start, end = new.start, new.end
        group = {window for window in self._mapping if window.start <= end and window.end >= start}
        if not group:
            return []
        starts, ends = zip(*((window.start, window.end) for window in group), strict=True)
        return [(TimeWindow(min(start, *starts), max(end, *ends)), {*group, new})]

    def persist(self, stored: MapState[Any, Any]) -> None:
        """Writes what has changed to the mapping of the current key."""
        for window in sorted(self._stored.keys() - self._mapping.keys()):
            stored.remove((window.start, window.end))
        for window, state_window in self._mapping.items():
            if self._stored.get(window) != state_window:
                stored.put((window.start, window.end), (state_window.start, state_window.end))
        self._stored = dict(self._mapping)


def _window(row: Any) -> TimeWindow:
    return TimeWindow(row.start_ms, row.end_ms)
