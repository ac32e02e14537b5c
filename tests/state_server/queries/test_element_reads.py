"""Entries, existence and sizes, on stores of both backends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.state_server.owner import STATE_ID, VALUES, key_of

from queryable_state.internal.v1 import changes_pb2
from queryable_state.server.config.limits import Limits
from queryable_state.server.storage.overlay import OverlayBuilder
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import Reason
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.keys.store_keys import (
    ACCUMULATOR_ELEMENT,
    VOID_NAMESPACE,
    list_element,
    record_key,
    window_namespace,
)
from queryable_state.wire.keys.time_window import TIME_WINDOW_TYPE
from queryable_state.wire.schema.types import Types
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    from tests.state_server.owner import Owner

MAP_KEYS = KeyCodec(Types.STRING())
CHUNKS = ValueCodec.of(Types.LIST(Types.LONG()))

ONE, TWO, EMPTY = key_of(0), key_of(1), key_of(2)


def entry(name: str) -> bytes:
    return MAP_KEYS.encode(name)


def sizes(answer: query_pb2.Answer) -> list[tuple[int, int]]:
    found = [query_pb2.Size.FromString(value) for value in answer.values]
    return [(size.elements, size.value_bytes) for size in found]


def own_map(
    owner: Owner, entries: dict[str, dict[str, int]], *, timestamp_ms: int | None = None
) -> None:
    owner.registration.kind = registration_pb2.MAP
    owner.own_all()
    owner.seal_records(
        0,
        (
            (key, VOID_NAMESPACE, entry(name), VALUES.encode(value, timestamp_ms))
            for key, held in entries.items()
            for name, value in held.items()
        ),
    )
    owner.commit(0)


def test_an_entry_is_read_alone(owner: Owner) -> None:
    own_map(owner, {ONE: {"a": 1, "b": 2}, TWO: {"b": 3}})
    answer = owner.ask(ONE, EMPTY, TWO, read=query_pb2.ENTRY, elements=[entry("b")])
    assert [VALUES.decode(value) for value in answer.values] == [2, 3]
    assert list(answer.missing) == [1]
    assert answer.info.version == 0


def test_each_key_may_have_an_element_of_its_own(owner: Owner) -> None:
    own_map(owner, {ONE: {"a": 1, "b": 2}, TWO: {"b": 3}})
    elements = [entry("a"), entry("a"), entry("b")]
    answer = owner.ask(ONE, TWO, TWO, read=query_pb2.ENTRY, elements=elements)
    assert [VALUES.decode(value) for value in answer.values] == [1, 3]
    assert list(answer.missing) == [1]
    exists = owner.ask(ONE, TWO, TWO, read=query_pb2.EXISTS, elements=elements)
    assert (list(exists.values), list(exists.missing)) == ([b"", b""], [1])


def test_entries_are_of_one_namespace(owner: Owner) -> None:
    owner.registration.kind = registration_pb2.MAP
    owner.registration.namespace_type.CopyFrom(TIME_WINDOW_TYPE.to_proto())
    owner.own_all()
    window, other = window_namespace(0, 10), window_namespace(10, 20)
    owner.seal_records(0, [(ONE, window, entry("a"), VALUES.encode(1))])
    owner.commit(0)
    for read, elements in (
        (query_pb2.ENTRY, [entry("a")]),
        (query_pb2.EXISTS, [entry("a")]),
        (query_pb2.EXISTS, []),
        (query_pb2.SIZE, []),
    ):
        in_other = owner.ask(ONE, read=read, elements=elements, namespace=other)
        assert list(in_other.missing) == [0]
        assert owner.ask(ONE, read=read, elements=elements, namespace=window).values
        without = owner.ask(ONE, read=read, elements=elements)
        assert without.error.reason == Reason.INVALID_REQUEST


def test_existence_and_size_of_a_map(owner: Owner) -> None:
    own_map(owner, {ONE: {"a": 1, "b": 2}, TWO: {"b": 3}})
    exists = owner.ask(ONE, EMPTY, TWO, read=query_pb2.EXISTS)
    assert (list(exists.values), list(exists.missing)) == ([b"", b""], [1])
    size = owner.ask(ONE, EMPTY, TWO, read=query_pb2.SIZE)
    each = len(VALUES.encode(1))
    assert (sizes(size), list(size.missing)) == ([(2, 2 * each), (1, each)], [1])


def test_the_size_of_a_list_is_that_of_its_chunks(owner: Owner) -> None:
    owner.registration.kind = registration_pb2.LIST
    owner.own_all()
    chunks = [CHUNKS.encode([1, 2, 3]), CHUNKS.encode([]), CHUNKS.encode([4], 1 << 60)]
    owner.seal_records(
        0,
        ((ONE, VOID_NAMESPACE, list_element(0, i), chunk) for i, chunk in enumerate(chunks)),
    )
    owner.commit(0)
    assert sizes(owner.ask(ONE, read=query_pb2.SIZE)) == [(4, sum(map(len, chunks)))]
    assert list(owner.ask(ONE, read=query_pb2.EXISTS).values) == [b""]


def test_a_chunk_that_ends_in_its_count_fails_for_its_key_alone(owner: Owner) -> None:
    owner.registration.kind = registration_pb2.LIST
    owner.own_all()
    chunks = {ONE: b"\x00\x01\x05", TWO: CHUNKS.encode([1])}
    owner.seal_records(
        0, ((key, VOID_NAMESPACE, list_element(0, 0), chunk) for key, chunk in chunks.items())
    )
    owner.commit(0)
    answer = owner.ask(ONE, TWO, read=query_pb2.SIZE)
    [failure] = answer.failed
    assert (list(failure.indexes), failure.error.reason) == ([0], Reason.CORRUPT)
    assert [elements for elements, _ in sizes(answer)] == [1]


@pytest.mark.parametrize(
    "kind", [registration_pb2.VALUE, registration_pb2.REDUCING, registration_pb2.AGGREGATING]
)
def test_existence_and_size_of_what_has_one_value(
    owner: Owner, kind: registration_pb2.StateKind.ValueType
) -> None:
    """An accumulator without a result is no value."""
    owner.registration.kind = kind
    owner.own_all()
    value = VALUES.encode(1)
    owner.seal_records(
        0,
        [
            (ONE, VOID_NAMESPACE, b"", value),
            (ONE, VOID_NAMESPACE, ACCUMULATOR_ELEMENT, b"x" * 100),
            (TWO, VOID_NAMESPACE, ACCUMULATOR_ELEMENT, b"x" * 100),
        ],
    )
    owner.commit(0)
    exists = owner.ask(ONE, TWO, read=query_pb2.EXISTS)
    assert (list(exists.values), list(exists.missing)) == ([b""], [1])
    size = owner.ask(ONE, TWO, read=query_pb2.SIZE)
    assert (sizes(size), list(size.missing)) == ([(1, len(value))], [1])


def test_what_has_expired_is_absent(owner: Owner) -> None:
    owner.registration.ttl.ttl_ms = 1000
    own_map(owner, {ONE: {str(i): i for i in range(20)}}, timestamp_ms=owner.clock.now_ms)
    # Among expired ones: the first records looked at do not tell.
    builder = OverlayBuilder()
    builder.add_block(
        changes_pb2.ChangeBlock(
            format_version=1,
            state_id=STATE_ID,
            put_keys=[record_key(owner.query(ONE).keys[0], VOID_NAMESPACE, entry("z"))],
            put_values=[VALUES.encode(7)],
        )
    )
    owner.engine.limits = Limits()
    assert sizes(owner.ask(ONE, read=query_pb2.SIZE))[0][0] == 20
    owner.clock.advance(1)
    for read in (query_pb2.EXISTS, query_pb2.SIZE):
        assert list(owner.ask(ONE, read=read).missing) == [0]
    assert list(owner.ask(ONE, read=query_pb2.ENTRY, elements=[entry("3")]).missing) == [0]
    next(iter(owner.table.subtasks())).store.seal(1, builder.build(), (1, 2))
    owner.commit(1)
    assert list(owner.ask(ONE, read=query_pb2.EXISTS).values) == [b""]
    assert sizes(owner.ask(ONE, read=query_pb2.SIZE))[0][0] == 1


def test_what_has_expired_is_there_where_the_state_says_so(owner: Owner) -> None:
    owner.registration.ttl.return_expired = True
    owner.registration.ttl.ttl_ms = 10
    own_map(owner, {ONE: {"a": 1}}, timestamp_ms=owner.clock.now_ms - 10)
    assert owner.ask(ONE, read=query_pb2.ENTRY, elements=[entry("a")]).values
    assert sizes(owner.ask(ONE, read=query_pb2.SIZE))[0][0] == 1


def test_presence_and_size_tell_the_remaining_life(owner: Owner) -> None:
    owner.registration.ttl.ttl_ms = 1000
    own_map(owner, {ONE: {"a": 1, "b": 2}}, timestamp_ms=owner.clock.now_ms - 300)
    asked = owner.ask(ONE, read=query_pb2.EXISTS, elements=[entry("a")])
    assert query_pb2.Presence.FromString(asked.values[0]).remaining_ms == 700
    assert query_pb2.Size.FromString(owner.ask(ONE, read=query_pb2.SIZE).values[0]) == (
        query_pb2.Size(elements=2, value_bytes=2 * 18, remaining_ms=700)
    )
    # Whether a map has an entry is answered without reading them all.
    assert list(owner.ask(ONE, read=query_pb2.EXISTS).values) == [b""]


def test_a_sealed_entry_is_seen_uncommitted(owner: Owner) -> None:
    own_map(owner, {ONE: {"a": 1}})
    owner.seal_records(1, [(ONE, VOID_NAMESPACE, entry("b"), VALUES.encode(2))])
    asked = {"read": query_pb2.ENTRY, "elements": [entry("b")]}
    assert list(owner.ask(ONE, **asked).missing) == [0]
    sealed = owner.ask(ONE, consistency=query_pb2.UNCOMMITTED, **asked)
    assert ([VALUES.decode(value) for value in sealed.values], sealed.info.version) == ([2], 1)
    size = owner.ask(ONE, consistency=query_pb2.UNCOMMITTED, read=query_pb2.SIZE)
    assert sizes(size)[0][0] == 2


def test_keys_that_others_own_or_that_lost_state_fail(owner: Owner) -> None:
    owner.registration.kind = registration_pb2.MAP
    owner.own(0)
    owner.own(1, complete_since=4)
    for read in (query_pb2.ENTRY, query_pb2.EXISTS, query_pb2.SIZE):
        elements = [entry("a")] if read == query_pb2.ENTRY else []
        answer = owner.ask(ONE, TWO, EMPTY, read=read, elements=elements)
        reasons = {f.error.reason: list(f.indexes) for f in answer.failed}
        assert reasons == {Reason.STATE_LOST: [1], Reason.NOT_OWNER: [2]}


def test_more_records_than_a_query_may_read_fail_for_their_key(owner: Owner) -> None:
    own_map(owner, {ONE: {str(i): i for i in range(6)}, TWO: {"a": 1}})
    answer = owner.ask(ONE, TWO, read=query_pb2.SIZE)
    assert {f.error.reason: list(f.indexes) for f in answer.failed} == {
        Reason.LIMIT_EXCEEDED: [0],
        Reason.OVERLOADED: [1],
    }
    assert len(owner.ask(ONE, TWO, read=query_pb2.EXISTS).values) == 2


@pytest.mark.parametrize(
    ("kind", "fields", "reason"),
    [
        ("VALUE", {"read": "ENTRY", "elements": [b"e"]}, Reason.UNSUPPORTED),
        ("LIST", {"read": "EXISTS", "elements": [b"e"]}, Reason.UNSUPPORTED),
        ("MAP", {"read": "ENTRY"}, Reason.INVALID_REQUEST),
        ("MAP", {"read": "SIZE", "elements": [b"e"]}, Reason.INVALID_REQUEST),
        ("MAP", {"read": "ENTRY", "elements": [b"e"] * 2}, Reason.INVALID_REQUEST),
        ("MAP", {"read": "ENTRY", "elements": [b"e" * 70_000]}, Reason.LIMIT_EXCEEDED),
        ("MAP", {"read": 99}, Reason.UNSUPPORTED),
    ],
)
def test_what_cannot_be_asked_is_refused(
    owner: Owner, kind: str, fields: dict[str, object], reason: Reason.ValueType
) -> None:
    owner.registration.kind = registration_pb2.StateKind.Value(kind)
    owner.own_all()
    error = owner.ask(ONE, ONE, TWO, **fields).error
    assert error.reason == reason
    if reason == Reason.UNSUPPORTED and "elements" in fields:
        assert kind in error.message
