"""Store keys: parts that delimit themselves, and what they sort by."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queryable_state.wire.errors import CorruptDataError, InvalidRequestError
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.keys.store_keys import (
    ACCUMULATOR_ELEMENT,
    VOID_NAMESPACE,
    chunk_of,
    list_element,
    record_key,
    split_record_key,
    window_namespace,
    window_of,
)
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from tests.wire.conftest import Wire

MILLIS = st.integers(-(2**63), 2**63 - 1)


@settings(max_examples=80)
@given(data=st.data(), element=st.binary(max_size=8), window=st.none() | st.tuples(MILLIS, MILLIS))
def test_a_record_key_splits_into_its_parts(
    data: st.DataObject, keys: Wire, element: bytes, window: tuple[int, int] | None
) -> None:
    info, key = data.draw(keys.typed)
    groups = KeyGroups(info)
    namespace = VOID_NAMESPACE if window is None else window_namespace(*window)
    wire_key = groups.wire_key(key)
    whole = record_key(wire_key, namespace, element)
    assert split_record_key(whole, groups.codec) == (wire_key, namespace, element)
    assert window_of(namespace) == window


@given(st.tuples(MILLIS, MILLIS), st.tuples(MILLIS, MILLIS))
def test_windows_sort_by_start_then_end(one: tuple[int, int], other: tuple[int, int]) -> None:
    assert (window_namespace(*one) < window_namespace(*other)) == (one < other)


@given(*[st.tuples(st.integers(0, 2**63), st.integers(0, 2**32 - 1))] * 2)
def test_chunks_of_a_list_sort_by_append(one: tuple[int, int], other: tuple[int, int]) -> None:
    assert (list_element(*one) < list_element(*other)) == (one < other)
    assert chunk_of(list_element(*one)) == one


def test_an_accumulator_stands_behind_its_result() -> None:
    key = KeyGroups(Types.STRING()).wire_key("a")
    assert record_key(key) < record_key(key, VOID_NAMESPACE, ACCUMULATOR_ELEMENT)


def test_numbers_that_do_not_fit_are_refused() -> None:
    with pytest.raises(InvalidRequestError, match="window"):
        window_namespace(0, 1 << 63)
    for batch_id, sequence in ((-1, 0), (0, -1), (0, 1 << 32)):
        with pytest.raises(InvalidRequestError, match="chunk"):
            list_element(batch_id, sequence)


@pytest.mark.parametrize(
    "data", ["", "00", "000061", "0000610001", "000061000102", "00006100010100"]
)
def test_a_key_without_its_parts_is_corrupt(data: str) -> None:
    with pytest.raises(CorruptDataError):
        split_record_key(bytes.fromhex(data), KeyCodec(Types.STRING()))
