"""Cutting encoded lists: the bytes are those of the elements' own list, of any type."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryable_state.wire.errors import CorruptDataError
from queryable_state.wire.schema.types import Types, type_info
from queryable_state.wire.values.list_elements import cut, element_count
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    from tests.wire.conftest import Wire


@given(data=st.data())
def test_a_cut_list_is_the_list_of_its_elements(data: st.DataObject, values: Wire) -> None:
    element, one, other = data.draw(values.typed_pairs)
    codec = ValueCodec.of(Types.LIST(element), pickler=pickle.dumps)
    elements = data.draw(st.lists(st.sampled_from([one, other]), max_size=12))
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(elements))] * 2)))
    expiry_ms = data.draw(st.none() | st.integers(0, 1 << 60))
    chunk = codec.encode(elements, expiry_ms)
    part = cut(chunk, first, last, element)
    assert part == codec.encode(elements[first:last], expiry_ms)
    assert element_count(part) == last - first


@pytest.mark.parametrize("spec", ["bigint", "string", "a int, b string"])
def test_a_damaged_chunk_is_corrupt(spec: str) -> None:
    element = type_info(spec)
    values = {"bigint": [1, 2], "string": ["a", "b"], "a int, b string": [(1, "x"), (2, "y")]}
    chunk = ValueCodec.of(Types.LIST(element)).encode(values[spec])
    for damaged in (chunk[:-1], chunk[:7], b""):
        with pytest.raises(CorruptDataError):
            cut(damaged, 0, 2, element)
    with pytest.raises(CorruptDataError, match="has no 1 to 3"):
        cut(chunk, 1, 3, element)
    nulls = ValueCodec.of(Types.LIST(element)).encode([None, None])
    with pytest.raises(CorruptDataError):
        cut(nulls, 0, 1, element)
