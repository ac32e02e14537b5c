"""Timers of one task: firing order, deduplication, deletes, and the changes that are written."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.runtime.timers.scanned_timers import due_timers

from queryable_state.internal.v1.backend_pb2 import DueQuery, StateFetch, StateValues
from queryable_state.streaming.runtime.states.cached_state import CurrentKey, StateContext
from queryable_state.streaming.runtime.states.settings import RuntimeSettings
from queryable_state.streaming.runtime.timers.task_timers import TaskTimers
from queryable_state.v1.registration_pb2 import StateRegistration
from queryable_state.wire.changes import ChangeBlockBuilder, read_block
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.event_time import NO_WATERMARK
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE, window_namespace
from queryable_state.wire.keys.timer_keys import Clock, timer_element
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

_NOW, _WATERMARK = 100, 200
_EVENT, _PROCESSING = Clock.EVENT_TIME, Clock.PROCESSING_TIME
_A, _B = (b"\0\0" + KeyCodec(Types.STRING()).encode(name) for name in ("a", "b"))


def _key(clock: Clock, timestamp_ms: int, key: bytes, namespace: bytes = VOID_NAMESPACE) -> bytes:
    return key + namespace + timer_element(clock, timestamp_ms)


def _timers(
    stored: Iterable[bytes] = (),
    *,
    page: int = 2,
    now: int = _NOW,
    watermark: int = _WATERMARK,
    windowed: bool = False,
    least_cancelled: int = 1,
) -> TaskTimers:
    """The timers of a task whose owner has these store keys and answers in pages of this size."""
    known = list(stored)

    def answered(query: DueQuery) -> Any:
        return due_timers(known, query)

    first = DueQuery(
        processing_time_ms=now,
        event_time_ms=None if watermark == NO_WATERMARK else watermark,
        limit=page,
    )
    unread: Any = None
    context = StateContext(
        current_key=CurrentKey(),
        table=unread,
        key_type=Types.STRING(),
        settings=dataclasses.replace(RuntimeSettings(), fetch_keys=page),
        batch_id=1,
        batch_timestamp_ms=now,
        watermark_ms=watermark,
        due=answered(first),
        where="operator 'test'",
        load=unread,
        fetch=lambda fetch: StateValues(due=answered(_due_of(fetch))),
    )
    registration = StateRegistration(state_id=7)
    if windowed:
        registration.namespace_type.CopyFrom(Types.LONG().to_proto())
    timers = TaskTimers(least_cancelled=least_cancelled)
    timers.bind(registration, context)
    return timers


def _due_of(fetch: StateFetch) -> DueQuery:
    assert fetch.state_id == 7
    return fetch.due


def _fired(timers: TaskTimers) -> list[tuple[Clock, int, bytes]]:
    return [timer[:3] for page in timers.due() for timer in page.fire()]


def _written(timers: TaskTimers) -> tuple[set[bytes], set[bytes]]:
    """The registered and the deleted store keys in the task's changes."""
    changes = ChangeBlockBuilder(7)
    timers.write(changes)
    blocks = list(map(read_block, changes.finish()))
    puts = [key for block in blocks for key in block.put_keys]
    deletes = [key for block in blocks for key in block.deleted_keys]
    assert all(value == b"" for block in blocks for value in block.put_values)
    assert len(set(puts + deletes)) == len(puts + deletes)
    return set(puts), set(deletes)


def test_processing_time_timers_fire_before_event_time_timers_each_by_time_and_key() -> None:
    """The order does not depend on the sizes of the pages."""
    stored = [
        _key(_EVENT, -5, _A),
        _key(_PROCESSING, 100, _A),
        _key(_EVENT, 200, _B),
        _key(_EVENT, 200, _A),
        _key(_PROCESSING, 7, _B),
        _key(_EVENT, 201, _A),
        _key(_PROCESSING, 101, _A),
    ]
    for page in range(1, 6):
        assert _fired(_timers(stored, page=page)) == [
            (_PROCESSING, 7, _B),
            (_PROCESSING, 100, _A),
            (_EVENT, -5, _A),
            (_EVENT, 200, _A),
            (_EVENT, 200, _B),
        ]


def test_without_a_watermark_no_event_time_timer_fires() -> None:
    timers = _timers([_key(_EVENT, -5, _A), _key(_PROCESSING, 5, _A)], watermark=NO_WATERMARK)
    fired = []
    for page in timers.due():
        for timer in page.fire():
            fired.append(timer[:3])
            timers.register(_EVENT, -7, _A)
    assert fired == [(_PROCESSING, 5, _A)]


def test_at_the_end_of_time_every_event_time_timer_fires() -> None:
    end = (1 << 63) - 1
    timers = _timers([_key(_EVENT, end, _A)], watermark=end)
    assert _fired(timers) == [(_EVENT, end, _A)]


def test_a_fired_timer_is_deleted() -> None:
    timers = _timers([_key(_EVENT, 5, _A), _key(_EVENT, 500, _A)])
    _fired(timers)
    assert _written(timers) == (set(), {_key(_EVENT, 5, _A)})


def test_a_timer_that_is_registered_twice_is_one_timer() -> None:
    timers = _timers()
    timers.register(_EVENT, 5, _A)
    timers.register(_EVENT, 5, _A)
    timers.register_all([timer_element(_EVENT, 5)] * 2, [_A + VOID_NAMESPACE] * 2)
    assert _written(timers) == ({_key(_EVENT, 5, _A)}, set())


def test_clock_timestamp_key_and_namespace_tell_timers_apart() -> None:
    window = window_namespace(0, 10)
    timers = _timers()
    timers.register(_EVENT, 5, _A)
    timers.register(_PROCESSING, 5, _A)
    timers.register(_EVENT, 6, _A)
    timers.register(_EVENT, 5, _B)
    timers.register(_EVENT, 5, _A, window)
    timers.delete(_EVENT, 6, _A)
    puts, deletes = _written(timers)
    assert len(puts) == 4
    assert deletes == set()


def test_the_last_call_for_a_timer_counts() -> None:
    timers = _timers()
    timers.register(_EVENT, 5, _A)
    timers.delete(_EVENT, 5, _A)
    timers.delete(_EVENT, 6, _A)
    timers.register(_EVENT, 6, _A)
    assert _written(timers) == ({_key(_EVENT, 6, _A)}, set())


def test_a_delete_is_written_of_a_timer_that_was_pending_before_the_batch() -> None:
    """Of one that the batch registered and deleted it is not."""
    stored = [_key(_EVENT, at, _A) for at in (300, 302)] + [_key(_PROCESSING, 301, _A)]
    timers = _timers(stored, page=10)
    for clock in Clock:
        for at in (300, 301, 302):
            timers.register(clock, at, _A)
            timers.delete(clock, at, _A)
    assert _written(timers) == (set(), set(stored))


def test_few_cancelled_timers_are_deleted_without_a_read() -> None:
    timers = _timers(least_cancelled=2)
    timers.register(_EVENT, 300, _A)
    timers.delete(_EVENT, 300, _A)
    assert _written(timers) == (set(), {_key(_EVENT, 300, _A)})


def test_no_more_pending_timers_are_read_than_were_cancelled() -> None:
    """Those that were not looked up are deleted."""
    stored = [_key(_EVENT, 300 + at, _A) for at in range(0, 100, 2)]
    timers = _timers(stored, page=2)
    for at in (301, 303, 399):
        timers.register(_EVENT, at, _A)
        timers.delete(_EVENT, at, _A)
    assert _written(timers) == (set(), {_key(_EVENT, 399, _A)})


def test_a_timer_has_the_key_and_the_window_it_was_registered_for() -> None:
    window = window_namespace(-10, 10)
    stored = [_key(_EVENT, 9, _A, window), _key(_EVENT, 10, _A)]
    timers = _timers(stored, windowed=True)
    fired = [timer for page in timers.due() for timer in page.fire()]
    assert fired == [(_EVENT, 9, _A, window), (_EVENT, 10, _A, VOID_NAMESPACE)]


def test_a_due_timer_registered_by_a_timer_fires_in_its_place() -> None:
    """One before the current timer fires next; one that is not due stays pending."""
    timers = _timers([_key(_EVENT, 10, _A), _key(_EVENT, 30, _A), _key(_EVENT, 40, _A)])
    fired = []
    for page in timers.due():
        for timer in page.fire():
            fired.append(timer.timestamp_ms)
            if timer.timestamp_ms == 30:
                for timestamp_ms in (35, 3, 150, 201):
                    timers.register(_EVENT, timestamp_ms, _A)
    assert fired == [10, 30, 3, 35, 40, 150]
    assert _written(timers)[0] == {_key(_EVENT, 201, _A)}


def test_a_timer_deleted_before_its_turn_does_not_fire() -> None:
    timers = _timers([_key(_EVENT, time, _A) for time in (10, 20, 30)], page=3)
    fired = []
    for page in timers.due():
        for timer in page.fire():
            fired.append(timer.timestamp_ms)
            timers.delete(_EVENT, 20, _A)
    assert fired == [10, 30]


def test_a_timer_may_register_itself_again() -> None:
    """It fires again at once, as in Flink."""
    timers = _timers([_key(_EVENT, 10, _A)])
    fired = []
    for page in timers.due():
        for timer in page.fire():
            fired.append(timer.timestamp_ms)
            if len(fired) < 3:
                timers.register(*timer)
    assert fired == [10, 10, 10]
    assert _written(timers) == (set(), {_key(_EVENT, 10, _A)})


def test_a_timer_registered_after_the_sweep_stays_pending_though_it_is_due() -> None:
    timers = _timers([_key(_EVENT, 10, _A)])
    assert _fired(timers) == [(_EVENT, 10, _A)]
    timers.register(_EVENT, 10, _A)
    assert _written(timers) == ({_key(_EVENT, 10, _A)}, set())


@pytest.mark.parametrize("timestamp", [1 << 63, -(1 << 63) - 1, 1.5, "soon", None])
def test_a_timestamp_is_a_64_bit_number(timestamp: Any) -> None:
    with pytest.raises(InvalidRequestError, match="64-bit milliseconds"):
        _timers().register(_EVENT, timestamp, _A)


_CALLS = st.tuples(
    st.booleans(), st.sampled_from(list(Clock)), st.integers(0, 30), st.sampled_from([_A, _B])
)


@given(
    stored=st.sets(st.tuples(st.sampled_from(list(Clock)), st.integers(0, 30)), max_size=12),
    scripts=st.lists(st.lists(_CALLS, max_size=3), max_size=12),
    page=st.integers(1, 5),
)
def test_any_sweep_fires_as_a_sorted_set_of_timers_would(
    stored: set[tuple[Clock, int]],
    scripts: Sequence[Sequence[tuple[bool, Clock, int, bytes]]],
    page: int,
) -> None:
    """The n-th timer that fires makes the calls of the n-th script."""
    pending = {(clock, time, _A) for clock, time in stored}
    timers = _timers([_key(*timer) for timer in pending], page=page, now=15, watermark=20)
    before, expected = set(pending), []
    script = iter(scripts)
    while due := sorted(t for t in pending if t[1] <= (20 if t[0] else 15)):
        pending.remove(due[0])
        expected.append(due[0])
        for is_register, clock, time, key in next(script, ()):
            (pending.add if is_register else pending.discard)((clock, time, key))
    script, fired = iter(scripts), []
    for each in timers.due():
        for one in each.fire():
            fired.append(one[:3])
            for is_register, clock, time, key in next(script, ()):
                (timers.register if is_register else timers.delete)(clock, time, key)
    assert fired == expected
    puts, deletes = _written(timers)
    stored_after = ({_key(*timer) for timer in before} - deletes) | puts
    assert stored_after == {_key(*timer) for timer in pending}
