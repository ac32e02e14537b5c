"""Blocks of one attempt become one overlay."""

from __future__ import annotations

import pytest

from queryable_state.internal.v1.changes_pb2 import ChangeBlock
from queryable_state.server.storage.overlay import OverlayBuilder
from queryable_state.wire.errors import SerializationError


def test_within_a_block_puts_come_after_deletes_and_clears() -> None:
    builder = OverlayBuilder()
    builder.add_block(
        ChangeBlock(
            state_id=1,
            cleared_prefixes=[b"p"],
            deleted_keys=[b"pa", b"pb"],
            put_keys=[b"pa"],
            put_values=[b"1"],
        )
    )
    state = builder.build().states[1]
    assert state.records == {b"pa": b"1", b"pb": None}
    assert state.cleared == {b"p"}


def test_a_later_block_overrides_an_earlier_one() -> None:
    builder = OverlayBuilder()
    builder.add_block(ChangeBlock(state_id=1, put_keys=[b"a", b"b"], put_values=[b"1", b"1"]))
    builder.add_block(
        ChangeBlock(state_id=1, deleted_keys=[b"a"], put_keys=[b"b"], put_values=[b"2"])
    )
    assert builder.build().states[1].records == {b"a": None, b"b": b"2"}


def test_a_later_clear_removes_what_earlier_blocks_put_and_no_more() -> None:
    builder = OverlayBuilder()
    builder.add_block(
        ChangeBlock(
            state_id=1,
            cleared_prefixes=[b"q"],
            put_keys=[b"p1", b"q1", b"r"],
            put_values=[b"1", b"1", b"1"],
        )
    )
    builder.add_block(
        ChangeBlock(state_id=1, cleared_prefixes=[b"p"], put_keys=[b"p2"], put_values=[b"2"])
    )
    builder.add_block(ChangeBlock(state_id=1, cleared_prefixes=[b"p2x"]))
    state = builder.build().states[1]
    assert state.records == {b"q1": b"1", b"r": b"1", b"p2": b"2"}
    assert state.cleared == {b"p", b"q", b"p2x"}


def test_states_are_kept_apart_and_sizes_summed() -> None:
    builder = OverlayBuilder()
    builder.add_block(ChangeBlock(state_id=1, put_keys=[b"a"], put_values=[b"123"]))
    builder.add_block(ChangeBlock(state_id=2, deleted_keys=[b"bb"], cleared_prefixes=[b"c"]))
    overlay = builder.build()
    assert overlay.states.keys() == {1, 2}
    assert overlay.size_bytes == builder.size_bytes == 7
    assert overlay.record_count == builder.record_count == 3


def test_keys_without_values_are_refused() -> None:
    with pytest.raises(SerializationError, match="2 keys to put and 1 values"):
        OverlayBuilder().add_block(
            ChangeBlock(state_id=1, put_keys=[b"a", b"b"], put_values=[b"1"])
        )


def test_sorted_runs_are_merged_in_order() -> None:
    keys = [b"%05d" % (number * 7919 % 10_000) for number in range(10_000)]
    builder = OverlayBuilder()
    builder.add_block(ChangeBlock(state_id=1, put_keys=keys, put_values=keys))
    overlay = builder.build()
    overlay.sort([1, 2])
    state = overlay.states[1]
    for limit in (20_000, 3_000, 20):
        assert state.keys_from(b"", None, limit) == sorted(keys)[:limit]
    assert state.keys_from(b"00500", b"00504", 100) == [b"00500", b"00501", b"00502", b"00503"]
    assert state.keys_from(b"00500", None, 2) == [b"00500", b"00501"]
