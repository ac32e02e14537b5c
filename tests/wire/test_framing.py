"""Frames come out as they went in, however the connection cuts them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryable_state.wire.errors import CorruptDataError
from queryable_state.wire.frames.framed_stream import FrameReader, framed


@given(st.lists(st.binary(max_size=300), max_size=20), st.lists(st.integers(1, 97), min_size=1))
def test_frames_come_out_whole_and_in_order_from_pieces_of_any_size(
    frames: list[bytes], sizes: list[int]
) -> None:
    sent = b"".join(map(framed, frames))
    reader = FrameReader(300)
    taken: list[bytes] = []
    at = turn = 0
    while at < len(sent):
        size = sizes[turn % len(sizes)]
        reader.feed(sent[at : at + size])
        at, turn = at + size, turn + 1
        # One that takes nothing for a while, as under back-pressure, misses nothing.
        while turn % 3 and (frame := reader.take()) is not None:
            taken.append(frame)
    while (frame := reader.take()) is not None:
        taken.append(frame)
    assert taken == frames


def test_a_length_over_the_limit_is_refused_before_its_bytes_arrive() -> None:
    reader = FrameReader(1000)
    reader.feed(framed(b"x" * 1000))
    assert reader.take() == b"x" * 1000
    reader.feed(b"GET ")
    with pytest.raises(CorruptDataError, match="another protocol"):
        reader.take()
