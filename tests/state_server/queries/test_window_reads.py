"""Reads and scans of all windows of keys, on stores of both backends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.state_server.owner import SMALL_LIMITS, VALUES, key_of
from tests.state_server.queries.scans import CODEC, messages, scan_query

from queryable_state.server.config.limits import Limits
from queryable_state.server.query.scan_query import position_of
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import Reason
from queryable_state.wire.keys.store_keys import ACCUMULATOR_ELEMENT, list_element
from queryable_state.wire.keys.time_window import TIME_WINDOW_TYPE, TimeWindow

if TYPE_CHECKING:
    from tests.state_server.owner import Owner

    from queryable_state.server.query.scan_query import ScanQuery

ONE, TWO, EMPTY = key_of(0), key_of(1), key_of(2)
HOURS = [TimeWindow(number * 60, number * 60 + 60) for number in range(-2, 4)]


@pytest.fixture
def windowed(owner: Owner) -> Owner:
    """An owner of all keys of a state with windows."""
    owner.registration.namespace_type.CopyFrom(TIME_WINDOW_TYPE.to_proto())
    owner.engine.limits = Limits()
    owner.own_all()
    return owner


def seal(
    owner: Owner, version: int, values: dict[str, dict[TimeWindow, int]], element: bytes = b""
) -> None:
    owner.seal_records(
        version,
        [
            (key, window.namespace, element, VALUES.encode(value))
            for key, windows in values.items()
            for window, value in windows.items()
        ],
    )


def decoded(value: bytes) -> dict[TimeWindow, list[int]]:
    """The values of an answer by window; checked to be in order."""
    found = query_pb2.KeyWindows.FromString(value)
    windows = [TimeWindow(each.start_ms, each.end_ms) for each in found.windows]
    assert windows == sorted(windows)
    values = [list(map(VALUES.decode, records.values)) for records in found.records]
    return dict(zip(windows, values, strict=True))


def windows_of(owner: Owner, key: str, **wanted: Any) -> dict[TimeWindow, list[int]]:
    answer = owner.ask(
        key, read=query_pb2.WINDOWS, windows=[query_pb2.WindowRange(**wanted)] if wanted else ()
    )
    assert not answer.HasField("error"), answer.error
    return decoded(answer.values[0]) if answer.values else {}


def test_all_windows_of_a_key_are_read_in_the_order_of_time(windowed: Owner) -> None:
    seal(windowed, 0, {ONE: {window: window.start for window in HOURS}, TWO: {HOURS[1]: 7}})
    windowed.commit(0)
    assert windows_of(windowed, ONE) == {window: [window.start] for window in HOURS}
    both = windowed.ask(ONE, TWO, EMPTY, read=query_pb2.WINDOWS)
    assert [len(decoded(value)) for value in both.values] == [len(HOURS), 1]
    assert list(both.missing) == [2]


def test_a_range_is_of_the_starts_of_windows_and_newest_counts_from_the_end(
    windowed: Owner,
) -> None:
    seal(windowed, 0, {ONE: dict.fromkeys(HOURS, 1)})
    windowed.commit(0)
    assert list(windows_of(windowed, ONE, from_ms=0, to_ms=120)) == HOURS[2:4]
    assert list(windows_of(windowed, ONE, from_ms=1)) == HOURS[3:]
    assert list(windows_of(windowed, ONE, limit=2)) == HOURS[:2]
    assert list(windows_of(windowed, ONE, limit=2, newest=True)) == HOURS[-2:]
    assert list(windows_of(windowed, ONE, to_ms=60, limit=1, newest=True)) == HOURS[2:3]
    assert windows_of(windowed, ONE, from_ms=500) == {}
    each = windowed.ask(
        ONE,
        ONE,
        read=query_pb2.WINDOWS,
        windows=[query_pb2.WindowRange(limit=1), query_pb2.WindowRange(limit=3)],
    )
    assert [len(decoded(value)) for value in each.values] == [1, 3]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25)
@given(data=st.data())
def test_any_range_of_any_windows_reads_what_the_oracle_says(
    windowed: Owner, data: st.DataObject
) -> None:
    version = windowed.table.job_or_new(bytes(range(16))).committed_version + 1
    times = st.integers(-50, 50)
    window = st.tuples(times, st.integers(0, 30)).map(lambda w: TimeWindow(w[0], w[0] + w[1]))
    stored = data.draw(st.dictionaries(window, st.integers(0, 99), max_size=5))
    key = f"key_{version}"
    seal(windowed, version, {key: stored})
    windowed.commit(version)
    start, end = data.draw(st.none() | times), data.draw(st.none() | times)
    limit, newest = data.draw(st.integers(0, 3)), data.draw(st.booleans())
    expected = [
        each
        for each in sorted(stored)
        if (start is None or each.start >= start) and (end is None or each.start < end)
    ]
    if limit:
        expected = expected[-limit:] if newest else expected[:limit]
    found = windows_of(windowed, key, from_ms=start, to_ms=end, limit=limit, newest=newest)
    assert found == {each: [stored[each]] for each in expected}


def test_a_deleted_and_an_expired_window_do_not_exist(windowed: Owner) -> None:
    windowed.registration.ttl.ttl_ms = 1000
    for subtask in list(windowed.table.subtasks()):
        windowed.table.add_state(subtask, windowed.registration)
    now_ms = windowed.clock.now_ms
    windowed.seal(0, {ONE: 1}, namespace=HOURS[0].namespace, timestamp_ms=now_ms - 1000)
    windowed.commit(0)
    windowed.seal(1, {ONE: 2}, namespace=HOURS[1].namespace, timestamp_ms=now_ms)
    windowed.commit(1)
    assert windows_of(windowed, ONE) == {HOURS[1]: [2]}
    windowed.clock.advance(1)
    assert windows_of(windowed, ONE) == {}


async def test_lists_have_their_elements_and_results_come_without_accumulators(
    windowed: Owner,
) -> None:
    windowed.registration.kind = registration_pb2.LIST
    for subtask in list(windowed.table.subtasks()):
        windowed.table.add_state(subtask, windowed.registration)
    records = [
        (ONE, window.namespace, list_element(0, number), VALUES.encode(number))
        for window in HOURS[:2]
        for number in range(2)
    ]
    windowed.seal_records(0, records)
    windowed.commit(0)
    assert windows_of(windowed, ONE) == {HOURS[0]: [0, 1], HOURS[1]: [0, 1]}
    windowed.registration.kind = registration_pb2.AGGREGATING
    for subtask in list(windowed.table.subtasks()):
        windowed.table.add_state(subtask, windowed.registration)
    values = [
        (TWO, window.namespace, element, VALUES.encode(number))
        for window in HOURS[:2]
        for number, element in enumerate((b"", ACCUMULATOR_ELEMENT))
    ]
    windowed.seal_records(1, values)
    windowed.commit(1)
    assert windows_of(windowed, TWO) == {HOURS[0]: [0], HOURS[1]: [0]}
    found = await scanned(windowed, scan_query(namespace=b"", start=CODEC.encode(TWO)))
    assert {item: values for item, values in found.items() if item[0] == TWO} == {
        (TWO, HOURS[0]): [0],
        (TWO, HOURS[1]): [0],
    }


async def test_more_windows_than_a_query_may_read_are_refused_and_many_are_read_in_the_background(
    windowed: Owner,
) -> None:
    windowed.engine.limits = Limits(prefix_records=4000)
    many = {TimeWindow(number, number + 1): number for number in range(3000)}
    seal(windowed, 0, {ONE: many})
    windowed.commit(0)
    answer = await windowed.ask_later(
        ONE, read=query_pb2.WINDOWS, windows=[query_pb2.WindowRange(limit=1, newest=True)]
    )
    assert decoded(answer.values[0]) == {TimeWindow(2999, 3000): [2999]}
    windowed.engine.limits = SMALL_LIMITS
    refused = windowed.ask(ONE, read=query_pb2.WINDOWS)
    assert refused.failed[0].error.reason == Reason.LIMIT_EXCEEDED
    assert "single windows" in refused.failed[0].error.message


def test_a_read_without_a_window_says_what_to_do(windowed: Owner) -> None:
    seal(windowed, 0, {ONE: {HOURS[0]: 1}})
    windowed.commit(0)
    for read in (query_pb2.POINT, query_pb2.PREFIX, query_pb2.EXISTS, query_pb2.SIZE):
        refused = windowed.ask(ONE, read=read)
        assert refused.error.reason == Reason.INVALID_REQUEST
        assert "TimeWindow(start, end)" in refused.error.message
    assert windowed.ask(ONE, namespace=HOURS[0].namespace).values
    refused = windowed.ask(ONE, read=query_pb2.WINDOWS, namespace=HOURS[0].namespace)
    assert refused.error.reason == Reason.INVALID_REQUEST


def test_a_state_without_windows_has_none_to_read(owner: Owner) -> None:
    owner.own_all()
    owner.seal(0, {ONE: 1})
    owner.commit(0)
    refused = owner.ask(ONE, namespace=HOURS[0].namespace)
    assert refused.error.reason == Reason.INVALID_REQUEST
    assert "leave out the window" in refused.error.message
    assert owner.ask(ONE, read=query_pb2.WINDOWS).error.reason == Reason.UNSUPPORTED


async def scanned(owner: Owner, query: ScanQuery) -> dict[tuple[str, TimeWindow], list[int]]:
    """The values by key and window."""
    found = {}
    for message in await messages(owner, query):
        for each in message.keys:
            window = TimeWindow(each.window.start_ms, each.window.end_ms)
            item = (CODEC.decode_all(each.key[2:]), window)
            found[item] = list(map(VALUES.decode, each.records.values))
    return found


@pytest.mark.parametrize("kind", [registration_pb2.VALUE, registration_pb2.MAP])
async def test_a_scan_has_each_window_of_a_key_as_an_item(
    windowed: Owner, kind: registration_pb2.StateKind.ValueType
) -> None:
    windowed.registration.kind = kind
    for subtask in list(windowed.table.subtasks()):
        windowed.table.add_state(subtask, windowed.registration)
    element = CODEC.encode("entry") if kind == registration_pb2.MAP else b""
    everything = {f"k{i}": {w: w.start + i for w in HOURS[i % 3 :]} for i in range(300)}
    seal(windowed, 0, everything, element)
    windowed.commit(0)
    expected = {(k, w): [v] for k, ws in everything.items() for w, v in ws.items()}
    assert await scanned(windowed, scan_query(namespace=b"")) == expected
    only = await scanned_in(windowed, HOURS[0])
    assert only == {
        key: [windows[HOURS[0]]] for key, windows in everything.items() if HOURS[0] in windows
    }
    # A page may end between two windows of a key, and the next one continues there.
    found: dict[tuple[str, TimeWindow], list[int]] = {}
    after = b""
    while True:
        query = scan_query(namespace=b"", limit=70, after=after)
        read = await messages(windowed, query)
        items = [each for message in read for each in message.keys]
        assert len(items) <= 70
        for each in items:
            window = TimeWindow(each.window.start_ms, each.window.end_ms)
            item = (CODEC.decode_all(each.key[2:]), window)
            assert item not in found
            found[item] = list(map(VALUES.decode, each.records.values))
        after = read[-1].page_token
        if not after:
            break
        assert after == position_of(items[-1])
    assert found == expected


async def scanned_in(owner: Owner, window: TimeWindow) -> dict[str, list[int]]:
    read = await messages(owner, scan_query(namespace=window.namespace))
    assert not any(each.HasField("window") for message in read for each in message.keys)
    return {
        CODEC.decode_all(each.key[2:]): list(map(VALUES.decode, each.records.values))
        for message in read
        for each in message.keys
    }


async def test_the_trace_names_window_and_watermark(windowed: Owner) -> None:
    seal(windowed, 3, {ONE: {HOURS[0]: 1, HOURS[1]: 2}})
    windowed.commit(3, watermark_ms=50)
    query = windowed.query(ONE, explain=True, namespace=HOURS[0].namespace)
    [step] = (await windowed.engine.answer_later(query)).trace.steps
    assert "in window -120 to -60 ms as of batch 3, watermark 50 ms" in step.detail
    query = windowed.query(ONE, explain=True, read=query_pb2.WINDOWS)
    [step] = (await windowed.engine.answer_later(query)).trace.steps
    assert step.detail.startswith("2 records")
    assert "in 2 windows as of batch 3" in step.detail
