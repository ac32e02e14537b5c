"""Reads and scans of pending timers, on stores of both backends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.state_server.owner import key_of
from tests.state_server.queries.scans import CODEC, messages, scan_query

from queryable_state.server.config.limits import Limits
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import Reason
from queryable_state.wire.keys.pending_timers import PendingTimer, decode_timers
from queryable_state.wire.keys.time_window import TIME_WINDOW_TYPE, TimeWindow
from queryable_state.wire.keys.timer_keys import Clock

if TYPE_CHECKING:
    from tests.state_server.owner import Owner

ONE, TWO, EMPTY = key_of(0), key_of(1), key_of(2)
WINDOW = TimeWindow(0, 10)

EVENT, PROCESSING = Clock.EVENT_TIME, Clock.PROCESSING_TIME
TIMERS = [
    PendingTimer(PROCESSING, 7),
    PendingTimer(EVENT, -5),
    PendingTimer(EVENT, 9),
    PendingTimer(EVENT, 9, WINDOW),
]
"""In the order in which they fire."""


@pytest.fixture
def timers(owner: Owner) -> Owner:
    """An owner of timers, of windows too; `ONE` has all of `TIMERS`, `TWO` the first one."""
    owner.registration.kind = registration_pb2.TIMER
    owner.registration.namespace_type.CopyFrom(TIME_WINDOW_TYPE.to_proto())
    owner.engine.limits = Limits()
    owner.own_all()
    owner.seal_records(
        0,
        [(ONE, b"", timer.element, b"") for timer in TIMERS] + [(TWO, b"", TIMERS[0].element, b"")],
    )
    owner.commit(0)
    return owner


def timers_of(value: bytes) -> list[PendingTimer]:
    return decode_timers(query_pb2.Records.FromString(value).elements)


def test_the_timers_of_a_key_are_in_the_order_in_which_they_fire(timers: Owner) -> None:
    answer = timers.ask(ONE, TWO, EMPTY, read=query_pb2.PREFIX)
    assert [timers_of(value) for value in answer.values] == [TIMERS, TIMERS[:1]]
    assert list(answer.missing) == [2]


def test_the_timers_of_one_window_are_read_by_it(timers: Owner) -> None:
    answer = timers.ask(ONE, TWO, read=query_pb2.PREFIX, namespace=WINDOW.namespace)
    assert [timers_of(value) for value in answer.values] == [TIMERS[-1:]]
    assert list(answer.missing) == [1]


def test_timers_are_counted(timers: Owner) -> None:
    sizes = timers.ask(ONE, EMPTY, read=query_pb2.SIZE)
    assert query_pb2.Size.FromString(sizes.values[0]).elements == len(TIMERS)
    assert list(sizes.missing) == [1]
    assert list(timers.ask(ONE, EMPTY, read=query_pb2.EXISTS).missing) == [1]


async def test_a_scan_has_all_timers_of_a_key_together(timers: Owner) -> None:
    read = await messages(timers, scan_query(namespace=b""))
    found = {
        CODEC.decode_all(each.key[2:]): decode_timers(each.records.elements)
        for message in read
        for each in message.keys
    }
    assert found == {ONE: TIMERS, TWO: TIMERS[:1]}
    read = await messages(timers, scan_query(namespace=WINDOW.namespace))
    [only] = [each for message in read for each in message.keys]
    assert decode_timers(only.records.elements) == TIMERS[-1:]


def test_timers_have_no_windows_to_list(timers: Owner) -> None:
    refused = timers.ask(ONE, read=query_pb2.WINDOWS)
    assert refused.error.reason == Reason.UNSUPPORTED
    assert "get_timers" in refused.error.message
