"""The end of encoded keys, against the codec, for all types that keys can have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.samples import sampled

from queryable_state.wire.errors import KeyTypeError
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.keys.key_end import key_end
from queryable_state.wire.schema.types import type_info

if TYPE_CHECKING:
    from tests.wire.conftest import Wire

# A busy machine stalls: a slow example is no failure.
PROPERTY = settings(max_examples=sampled(150))


@PROPERTY
@given(data=st.data())
def test_a_key_ends_where_the_codec_says(data: st.DataObject, keys: Wire) -> None:
    info, key = data.draw(keys.typed)
    before, behind = data.draw(st.tuples(st.binary(max_size=5), st.binary(max_size=5)))
    encoded = KeyCodec(info).encode(key)
    end = len(before) + len(encoded)
    assert key_end(info)(before + encoded + behind, len(before)) == end


@PROPERTY
@given(data=st.data())
def test_no_part_of_a_key_is_a_whole_key(data: st.DataObject, keys: Wire) -> None:
    info, key = data.draw(keys.typed)
    encoded, end = KeyCodec(info).encode(key), key_end(info)
    group = data.draw(st.binary(min_size=2, max_size=2))
    for length in range(len(encoded)):
        assert end(group + encoded[:length], 2) == -1
    assert end(b"", 2) == end(group[:1], 2) == -1


@PROPERTY
@given(data=st.data())
def test_bytes_that_end_as_a_whole_key_are_a_prefix_of_no_other_key(
    data: st.DataObject, keys: Wire
) -> None:
    """Also bytes that are no key: cut out of two keys, with noise between."""
    info, one, other = data.draw(keys.typed_pairs)
    codec, end = KeyCodec(info), key_end(info)
    first, second = codec.encode(one), codec.encode(other)
    cut = data.draw(st.integers(0, len(first)))
    noise = data.draw(st.binary(max_size=3) | st.text("\0\1", max_size=3).map(str.encode))
    given_bytes = first[:cut] + noise + second[data.draw(st.integers(0, len(second))) :]
    if end(given_bytes, 0) == len(given_bytes):
        for encoded in (first, second):
            assert encoded == given_bytes or not encoded.startswith(given_bytes)


@pytest.mark.parametrize("spec", ["array<int>", "map<int,int>", "pickled", "a array<int>"])
def test_types_that_keys_cannot_have_are_refused(spec: str) -> None:
    with pytest.raises(KeyTypeError, match="a key cannot be of type"):
        key_end(type_info(spec))
