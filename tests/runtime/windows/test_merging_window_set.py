"""The live windows of a key that are merged, and the windows under which their state is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given
from hypothesis import strategies as st

from queryable_state.streaming import EventTimeSessionWindows, Time, TimeWindow
from queryable_state.streaming.runtime.windows.merging_window_set import MergingWindowSet

if TYPE_CHECKING:
    from collections.abc import Sequence

_WINDOWS = st.builds(lambda start, size: TimeWindow(start, start + size), *[st.integers(1, 30)] * 2)


class _Stored(dict[Any, Any]):
    """The map state of a key."""

    def put(self, key: Any, value: Any) -> None:
        self[key] = value

    def remove(self, key: Any) -> None:
        self.pop(key)


class _AnyMerging(EventTimeSessionWindows[Any]):
    """Sessions whose windows are merged by the assigner."""

    def merge_windows(self, windows: Any, callback: Any) -> None:
        TimeWindow.merge_windows(windows, callback)


def _sets() -> list[MergingWindowSet]:
    gap = Time.milliseconds(1)
    stored: Any = _Stored()
    return [
        MergingWindowSet(assigner, stored)
        for assigner in (EventTimeSessionWindows.with_gap(gap), _AnyMerging.with_gap(gap))
    ]


@given(st.lists(st.lists(_WINDOWS, max_size=6), max_size=4))
def test_state_of_live_windows_is_under_distinct_windows(
    batches: Sequence[Sequence[TimeWindow]],
) -> None:
    """Whatever is merged, the state of each element is under the state window of its window."""
    for merging in _sets():
        stored: Any = _Stored()
        under: dict[TimeWindow, set[int]] = {}
        elements: list[TimeWindow] = []

        def merged(result: Any, of: Any, kept: Any, moved: Any, under: Any = under) -> None:
            for window in moved:
                under[kept] |= under.pop(window)

        merge: Any = merged
        for batch in batches:
            for window in batch:
                covering = merging.add(window, merge)
                assert covering.cover(window) == covering
                state_window = merging.state_window(covering)
                assert state_window is not None
                under.setdefault(state_window, set()).add(len(elements))
                elements.append(window)
            merging.persist(stored)
        for key, value in stored.items():
            live, state_window = TimeWindow(*key), TimeWindow(*value)
            own = [elements[number] for number in under.pop(state_window)]
            assert (min(w.start for w in own), max(w.end for w in own)) == key
            assert all(live.intersects(window) for window in own)
        assert under == {}


@given(st.lists(_WINDOWS, max_size=12))
def test_sessions_are_merged_as_any_windows_are(windows: Sequence[TimeWindow]) -> None:
    sessions, general = _sets()

    # The mappings are compared, not the state.
    ignore: Any = lambda *_: None  # noqa: E731
    for window in windows:
        assert sessions.add(window, ignore) == general.add(window, ignore)
        assert sessions.windows == general.windows
