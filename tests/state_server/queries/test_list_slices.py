"""Slices of lists, on stores of both backends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.state_server.owner import key_of

from queryable_state.server.config.limits import Limits
from queryable_state.server.state_server.queries.element_reads import ListSlices
from queryable_state.server.state_server.queries.key_reads import RecordCount
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import Reason
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE, list_element
from queryable_state.wire.schema.types import Types
from queryable_state.wire.state_codecs import decode_list
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tests.state_server.owner import Owner

TEXTS = ValueCodec.of(Types.LIST(Types.STRING()))
ONE, TWO, EMPTY = key_of(0), key_of(1), key_of(2)


def a_list_of(info: Any) -> registration_pb2.StateRegistration:
    return registration_pb2.StateRegistration(
        kind=registration_pb2.LIST,
        value_types=[registration_pb2.SchemaVersion(version=1, type=info.to_proto())],
    )


def own_lists(owner: Owner, lists: Mapping[str, Sequence[bytes]]) -> None:
    """Owns lists of these chunks."""
    owner.registration.MergeFrom(a_list_of(Types.STRING()))
    owner.own_all()
    owner.seal_records(
        0,
        (
            (key, VOID_NAMESPACE, list_element(0, number), chunk)
            for key, chunks in lists.items()
            for number, chunk in enumerate(chunks)
        ),
    )
    owner.commit(0)


def chunks_of(*parts: str) -> list[bytes]:
    return [TEXTS.encode(list(part), None) for part in parts]


def sliced(answer: query_pb2.Answer) -> list[tuple[str, int, int, int]]:
    """Elements, start, limit and length of each slice."""
    found = [query_pb2.ListSlice.FromString(value) for value in answer.values]
    return [
        ("".join(decode_list(each.chunks, TEXTS)), each.start, each.limit, each.length)
        for each in found
    ]


def ranges(*wanted: tuple[int, int]) -> list[query_pb2.ListRange]:
    return [query_pb2.ListRange(start=start, limit=limit) for start, limit in wanted]


@pytest.mark.parametrize(
    ("start", "limit", "found"),
    [
        (0, 2, ("ab", 0, 2, 6)),
        (0, 0, ("abcdef", 0, 0, 6)),
        (2, 3, ("cde", 2, 3, 6)),
        (-2, 0, ("ef", 4, 0, 6)),
        (-4, 2, ("cd", 2, 2, 6)),
        (-9, 2, ("ab", 0, 2, 6)),
        (5, 9, ("f", 5, 9, 6)),
        (6, 1, ("", 6, 1, 6)),
        (99, 0, ("", 6, 0, 6)),
    ],
)
def test_a_slice_has_its_elements_and_the_length_of_the_list(
    owner: Owner, start: int, limit: int, found: tuple[str, int, int, int]
) -> None:
    own_lists(owner, {ONE: chunks_of("abc", "d", "ef")})
    answer = owner.ask(ONE, read=query_pb2.SLICE, ranges=ranges((start, limit)))
    assert sliced(answer) == [found]
    assert answer.info.version == 0


def test_only_the_chunks_of_a_slice_travel(owner: Owner) -> None:
    own_lists(owner, {ONE: chunks_of("a" * 60, "bcd", "e" * 60)})
    answer = owner.ask(ONE, read=query_pb2.SLICE, ranges=ranges((61, 3)))
    [found] = [query_pb2.ListSlice.FromString(value) for value in answer.values]
    assert list(found.chunks) == chunks_of("cd", "e")


def test_each_key_may_have_a_range_of_its_own_and_a_missing_key_has_none(owner: Owner) -> None:
    own_lists(owner, {ONE: chunks_of("abc"), TWO: chunks_of("de")})
    keys = (ONE, EMPTY, TWO, TWO)
    same = owner.ask(*keys, read=query_pb2.SLICE, ranges=ranges((0, 1)))
    assert [found for found, *_ in sliced(same)] == ["a", "d", "d"]
    assert list(same.missing) == [1]
    own = ranges((1, 1), (0, 1), (-1, 0), (0, 0))
    each = owner.ask(*keys, read=query_pb2.SLICE, ranges=own)
    assert [found for found, *_ in sliced(each)] == ["b", "e", "de"]
    whole = owner.ask(ONE, read=query_pb2.SLICE)
    assert sliced(whole) == [("abc", 0, 0, 3)]


def test_expired_elements_do_not_count(owner: Owner) -> None:
    owner.registration.ttl.ttl_ms = 1000
    expired, live = owner.clock.now_ms - 1000, owner.clock.now_ms - 1
    chunks = [TEXTS.encode(["a", "b"], expired), TEXTS.encode(["c", "d"], live)]
    own_lists(owner, {ONE: chunks, TWO: chunks[:1]})
    answer = owner.ask(ONE, TWO, read=query_pb2.SLICE, ranges=ranges((1, 5)))
    assert sliced(answer) == [("d", 1, 5, 2)]
    assert list(answer.missing) == [1]


async def test_a_slice_of_a_long_chunk_is_cut_in_the_background(owner: Owner) -> None:
    owner.engine.limits = Limits()
    own_lists(owner, {ONE: chunks_of("ab" * 50_000)})
    near = owner.ask(ONE, read=query_pb2.SLICE, ranges=ranges((0, 4)))
    assert sliced(near) == [("abab", 0, 4, 100_000)]
    far = await owner.ask_later(ONE, read=query_pb2.SLICE, ranges=ranges((-3, 0)))
    assert sliced(far) == [("bab", 99_997, 0, 100_000)]


def test_a_chunk_of_an_unknown_schema_version_fails_for_its_key_alone(owner: Owner) -> None:
    newer = ValueCodec({9: Types.LIST(Types.STRING())}, 9).encode(["a", "b"])
    own_lists(owner, {ONE: [newer], TWO: chunks_of("ab")})
    answer = owner.ask(ONE, TWO, read=query_pb2.SLICE, ranges=ranges((0, 1)))
    [failure] = answer.failed
    assert (list(failure.indexes), failure.error.reason) == ([0], Reason.CORRUPT)
    assert [found for found, *_ in sliced(answer)] == ["a"]


@pytest.mark.parametrize(
    ("kind", "fields", "reason"),
    [
        ("MAP", {"read": "SLICE"}, Reason.UNSUPPORTED),
        ("VALUE", {"read": "SLICE"}, Reason.UNSUPPORTED),
        ("LIST", {"read": "SLICE", "elements": [b"e"]}, Reason.INVALID_REQUEST),
        ("LIST", {"read": "SLICE", "ranges": ranges((0, 1), (0, 1))}, Reason.INVALID_REQUEST),
        ("LIST", {"read": "SIZE", "ranges": ranges((0, 1))}, Reason.INVALID_REQUEST),
    ],
)
def test_what_cannot_be_sliced_is_refused(
    owner: Owner, kind: str, fields: dict[str, object], reason: Reason.ValueType
) -> None:
    owner.registration.kind = registration_pb2.StateKind.Value(kind)
    owner.own_all()
    assert owner.ask(ONE, ONE, TWO, **fields).error.reason == reason


@given(
    chunks=st.lists(st.lists(st.integers(0, 9), min_size=1, max_size=4), max_size=5),
    start=st.integers(-12, 12),
    limit=st.integers(0, 12),
    wide=st.booleans(),
)
def test_a_slice_is_a_slice_of_pythons_list(
    chunks: list[list[int]], start: int, limit: int, wide: bool
) -> None:
    """For elements of a fixed width, which are not decoded, and for others."""
    info = Types.LONG() if wide else Types.STRING()
    codec = ValueCodec.of(Types.LIST(info))
    elements = [number if wide else "x" * number for chunk in chunks for number in chunk]
    stored = [codec.encode(c if wide else ["x" * number for number in c]) for c in chunks]
    slices = ListSlices(a_list_of(info), ranges((start, limit)), RecordCount(None))
    found = query_pb2.ListSlice.FromString(slices.answer(0, stored))
    rest = elements[start:] if start >= -len(elements) else elements
    assert decode_list(found.chunks, codec) == (rest[:limit] if limit else rest)
    assert found.length == len(elements)
    assert elements[found.start :][: limit or None] == decode_list(found.chunks, codec)
