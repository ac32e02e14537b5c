"""Time windows: their namespaces, their order, and which states have them."""

from __future__ import annotations

import copy
import pickle
from datetime import UTC, datetime, timedelta

import pytest

from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import CorruptDataError, InvalidRequestError
from queryable_state.wire.keys.store_keys import (
    VOID_NAMESPACE,
    micros_namespace,
    namespace_of,
    window_namespace,
    write_window,
)
from queryable_state.wire.keys.time_window import (
    MICROS_WINDOW_TYPE,
    TIME_WINDOW_TYPE,
    TimeWindow,
    check_window,
    stored_namespace,
)

PLAIN = registration_pb2.StateRegistration(queryable_name="last")
WINDOWED = registration_pb2.StateRegistration(
    queryable_name="maxima", namespace_type=TIME_WINDOW_TYPE.to_proto()
)
NAMESPACE = window_namespace(0, 10)


def test_a_window_is_its_namespace_and_back() -> None:
    for start, end in ((0, 10), (-5, -5), (-(1 << 63), (1 << 63) - 1)):
        window = TimeWindow(start, end)
        assert window.namespace == window_namespace(start, end)
        assert TimeWindow.of_namespace(window.namespace) == window
        assert pickle.loads(pickle.dumps(window)) == window
    for other in (VOID_NAMESPACE, b"", NAMESPACE + b"x", window_namespace(1, 0)):
        with pytest.raises(CorruptDataError):
            TimeWindow.of_namespace(other)


def test_the_registered_type_of_windows_is_pinned() -> None:
    assert TIME_WINDOW_TYPE.simple_string() == "struct<start_ms:bigint,end_ms:bigint>"

    assert MICROS_WINDOW_TYPE.simple_string() == "struct<start_us:bigint,end_us:bigint>"


@pytest.mark.parametrize(("start", "end"), [(200, 400), (-1, 999), (-1500, 1000), (0, 1), (5, 5)])
def test_a_window_below_a_millisecond_is_exact_in_every_form(start: int, end: int) -> None:
    window = TimeWindow.of_micros(start, end)
    assert (window.start_us, window.end_us) == (start, end)
    assert (window.start, window.end) == (start // 1000, end // 1000)
    assert TimeWindow.of_namespace(window.namespace) == window
    assert TimeWindow.of_proto(window.to_proto()) == window
    assert pickle.loads(pickle.dumps(window)) == copy.copy(window) == window
    assert window != TimeWindow(window.start, window.end)
    assert window.jsonable() == {"start_us": start, "end_us": end}
    assert repr(window) == f"TimeWindow.of_micros({start}, {end})"
    epoch = datetime(1970, 1, 1, tzinfo=UTC)
    start_time, end_time = (epoch + timedelta(microseconds=each) for each in (start, end))
    assert TimeWindow(start_time, end_time) == window


def test_a_window_of_whole_milliseconds_is_the_same_in_microseconds() -> None:
    window = TimeWindow.of_micros(1000, 3000)
    assert window == TimeWindow(1, 3)
    assert hash(window) == hash(TimeWindow(1, 3))
    assert window.namespace == window_namespace(1, 3)
    assert TimeWindow.of_namespace(micros_namespace(1000, 3000)) == window
    assert window.jsonable() == {"start_ms": 1, "end_ms": 3}


def test_windows_below_a_millisecond_sort_as_their_namespaces() -> None:
    bounds = [(0, 900), (1, 2), (200, 400), (1000, 3000), (1000, 3001), (-1, 5), (-1000, 0)]
    windows = [TimeWindow.of_micros(*each) for each in bounds]
    state = registration_pb2.StateRegistration(namespace_type=MICROS_WINDOW_TYPE.to_proto())
    assert [(each.start_us, each.end_us) for each in sorted(windows)] == sorted(bounds)
    assert sorted(windows) == sorted(
        windows, key=lambda each: stored_namespace(state, each.namespace)
    )
    assert not TimeWindow.of_micros(0, 200).intersects(TimeWindow.of_micros(201, 300))
    assert TimeWindow.of_micros(0, 1).cover(TimeWindow.of_micros(5, 9)) == TimeWindow.of_micros(
        0, 9
    )
    with pytest.raises(InvalidRequestError, match="microseconds ends before it starts"):
        TimeWindow.of_micros(2, 1)


def test_a_reader_without_microseconds_refuses_what_it_cannot_tell_apart() -> None:
    """Whole milliseconds look to it as before; other bounds are no window to it."""
    for namespace in (micros_namespace(1000, 3000), window_namespace(1, 3)):
        message = query_pb2.TimeWindow()
        assert write_window(namespace, message)
        assert (message.start_ms, message.end_ms) == (1, 3)
        assert namespace_of(message) == namespace
    message = TimeWindow.of_micros(1000, 3001).to_proto()
    with pytest.raises(InvalidRequestError, match="ends before it starts"):
        TimeWindow(message.start_ms, message.end_ms)


def test_a_pickle_of_two_bounds_is_of_whole_milliseconds() -> None:
    window = TimeWindow.__new__(TimeWindow)
    window.__setstate__((None, {"start": 1, "end": 2}))
    assert window == TimeWindow(1, 2)


def test_windows_are_values_that_sort_by_start_and_then_end() -> None:
    windows = [TimeWindow(5, 6), TimeWindow(0, 10), TimeWindow(0, 5)]
    assert sorted(windows) == [TimeWindow(0, 5), TimeWindow(0, 10), TimeWindow(5, 6)]
    assert sorted(windows) == sorted(windows, key=lambda window: window.namespace)
    assert len({TimeWindow(0, 5), *windows}) == 3
    assert repr(windows[0]) == "TimeWindow(start=5, end=6)"
    assert TimeWindow(0, 5).max_timestamp() == 4
    assert TimeWindow(0, 5).intersects(TimeWindow(5, 6))
    assert not TimeWindow(0, 5).intersects(TimeWindow(6, 7))
    assert TimeWindow(0, 5).cover(TimeWindow(6, 7)) == TimeWindow(0, 7)


def test_a_window_may_be_given_in_times_with_a_zone() -> None:
    start, end = datetime(2013, 1, 31, 10, tzinfo=UTC), datetime(2013, 1, 31, 10, 5, tzinfo=UTC)
    assert TimeWindow(start, end) == TimeWindow(1_359_626_400_000, 1_359_626_700_000)
    for wrong in (datetime(2013, 1, 31), "2013-01-31", None, 1.5, True):  # noqa: DTZ001
        with pytest.raises(InvalidRequestError, match="start of a window"):
            TimeWindow(wrong, end)  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match="ends before it starts"):
        TimeWindow(end, start)


def test_a_read_names_a_window_exactly_if_the_state_has_windows() -> None:
    check_window(PLAIN, b"")
    check_window(PLAIN, VOID_NAMESPACE)
    check_window(WINDOWED, NAMESPACE)
    with pytest.raises(InvalidRequestError, match=r"'last' has no windows.*leave out the window"):
        check_window(PLAIN, NAMESPACE)
    for none in (b"", VOID_NAMESPACE):
        with pytest.raises(InvalidRequestError, match=r"'maxima'.*pass window=TimeWindow"):
            check_window(WINDOWED, none)


def test_all_windows_are_read_of_a_state_that_has_some() -> None:
    check_window(WINDOWED, b"", query_pb2.WINDOWS)
    with pytest.raises(InvalidRequestError, match="'last' has no windows"):
        check_window(PLAIN, b"", query_pb2.WINDOWS)
    with pytest.raises(InvalidRequestError, match="one window is named"):
        check_window(WINDOWED, NAMESPACE, query_pb2.WINDOWS)


def test_timers_are_read_of_all_windows_or_of_one() -> None:
    timers = registration_pb2.StateRegistration(
        kind=registration_pb2.TIMER, namespace_type=TIME_WINDOW_TYPE.to_proto()
    )
    check_window(timers, b"")
    check_window(timers, NAMESPACE)
    with pytest.raises(InvalidRequestError, match="get_timers"):
        check_window(timers, b"", query_pb2.WINDOWS)
