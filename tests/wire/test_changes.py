"""Blocks of changes: cut to size, counted, sealed, and kept as a changelog file."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queryable_state.wire.changelog import read_changelog, write_changelog
from queryable_state.wire.changes import (
    MAX_BLOCK_BYTES,
    BlockSums,
    ChangeBlock,
    ChangeBlockBuilder,
    Seal,
    Token,
    read_block,
    record_count,
)
from queryable_state.wire.errors import CorruptDataError, InvalidRequestError, Reason

KEYS = [b"\x00\x01%04d\x00" % i for i in range(50)]
TOKEN = Token(run_epoch=2, task_attempt=9)

CHANGE = st.tuples(
    st.sampled_from(("clear", "delete", "delete_all", "put", "put_all")),
    st.lists(st.sampled_from(KEYS), min_size=1, max_size=8),
    st.binary(max_size=60),
)


def applied(blocks: list[bytes]) -> dict[bytes, bytes]:
    """What a store holds after the blocks."""
    store = dict.fromkeys(KEYS, b"before")
    for block in map(read_block, blocks):
        for prefix in block.cleared_prefixes:
            store = {k: v for k, v in store.items() if not k.startswith(prefix)}
        for key in block.deleted_keys:
            store.pop(key, None)
        store.update(zip(block.put_keys, block.put_values, strict=True))
    return store


@settings(max_examples=80)
@given(st.lists(CHANGE, max_size=20))
def test_changes_apply_in_the_order_of_the_calls(
    changes: list[tuple[str, list[bytes], bytes]],
) -> None:
    expected = dict.fromkeys(KEYS, b"before")
    builder = ChangeBlockBuilder(7, max_bytes=200)
    blocks: list[bytes] = []
    for what, keys, value in changes:
        if what == "clear":
            prefix = keys[0][:5]
            builder.clear_prefix(prefix)
            expected = {k: v for k, v in expected.items() if not k.startswith(prefix)}
        elif what == "delete":
            builder.delete(keys[0])
            expected.pop(keys[0], None)
        elif what == "delete_all":
            builder.delete_all(keys)
            expected = {k: v for k, v in expected.items() if k not in keys}
        elif what == "put":
            builder.put(keys[0], value)
            expected[keys[0]] = value
        else:
            builder.put_all(keys, [value] * len(keys))
            expected.update(dict.fromkeys(keys, value))
        blocks += builder.take()
    blocks += builder.finish()
    assert applied(blocks) == expected
    for block in blocks:
        assert len(block) <= 200 or record_count(read_block(block)) == 1
        assert read_block(block).state_id == 7


def test_a_block_is_at_most_one_mebibyte_unless_it_is_one_record() -> None:
    builder = ChangeBlockBuilder(7)
    keys = [b"\x00\x01%06d\x00" % i for i in range(30_000)]
    builder.put_all(keys, [b"v" * 100] * len(keys))
    builder.put(b"\x00\x01big\x00", b"v" * (2 * MAX_BLOCK_BYTES))
    blocks = builder.finish()
    assert [len(block) > MAX_BLOCK_BYTES for block in blocks] == [False] * (len(blocks) - 1) + [
        True
    ]
    assert len(blocks) < 8
    assert sum(record_count(read_block(block)) for block in blocks) == 30_001
    assert builder.finish() == []


def test_the_seal_counts_the_blocks_of_all_states_in_their_order() -> None:
    sums = BlockSums()
    first, second = ChangeBlockBuilder(1, sums), ChangeBlockBuilder(2, sums)
    first.put(KEYS[0], b"a")
    second.delete(KEYS[1])
    second.operator_state([b"x", b"y"])
    blocks = first.finish() + second.finish()
    seal = sums.seal(TOKEN, fingerprint=-1, row_count=3)
    assert seal == Seal(
        record_count=3,
        checksum=sums.checksum,
        token=TOKEN,
        fingerprint=2**64 - 1,
        row_count=3,
    )
    for order, agrees in ((blocks, True), (blocks[::-1], False), (blocks[:1], False)):
        received = BlockSums()
        for block in order:
            received.add(block, record_count(read_block(block)))
        if agrees:
            received.verify(seal)
        else:
            with pytest.raises(CorruptDataError, match="send the batch again") as caught:
                received.verify(seal)
            assert caught.value.reason == Reason.CHECKSUM_MISMATCH


@pytest.mark.parametrize(
    ("block", "text"),
    [
        (ChangeBlock(state_id=1), "format version 0"),
        (ChangeBlock(format_version=1, put_keys=[KEYS[0]]), "1 keys and 0 values"),
        (ChangeBlock(format_version=1, cleared_prefixes=[b""]), "key of less than"),
        (ChangeBlock(format_version=1, deleted_keys=[b"\x00\x01a"]), "key of less than"),
    ],
)
def test_a_block_that_cannot_be_applied_is_corrupt(block: ChangeBlock, text: str) -> None:
    with pytest.raises(CorruptDataError, match=text):
        read_block(block.SerializeToString())


def changelog() -> tuple[list[bytes], bytes]:
    builder = ChangeBlockBuilder(7, max_bytes=100)
    builder.put_all(KEYS, [b"v"] * len(KEYS))
    blocks = builder.finish()
    seal = builder.sums.seal(TOKEN)
    return blocks, write_changelog(blocks, seal, batch_id=5, offsets_digest=b"\x01" * 32)


def test_a_changelog_comes_back_whole() -> None:
    blocks, data = changelog()
    log = read_changelog(data)
    assert [block.SerializeToString() for block in log.blocks] == blocks
    assert (log.batch_id, log.offsets_digest) == (5, b"\x01" * 32)
    assert log.seal.token == TOKEN


def test_a_torn_or_changed_changelog_is_corrupt_wherever_it_is_torn() -> None:
    _, data = changelog()
    for end in range(len(data)):
        with pytest.raises(CorruptDataError):
            read_changelog(data[:end])
    for at in range(len(data)):
        with pytest.raises(CorruptDataError):
            read_changelog(data[:at] + bytes((data[at] ^ 0x40,)) + data[at + 1 :])
    with pytest.raises(CorruptDataError, match="follow the seal"):
        read_changelog(data + b"\x00")


def test_an_empty_batch_has_a_changelog_too() -> None:
    data = write_changelog([], BlockSums().seal(TOKEN), batch_id=0)
    assert read_changelog(data).blocks == ()


def test_a_digest_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="255"):
        write_changelog([], Seal(), batch_id=0, offsets_digest=bytes(256))
