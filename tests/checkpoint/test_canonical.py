"""Canonical snapshots: what goes in comes out, by key groups; what is not whole is refused."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queryable_state.server.checkpoint.canonical import CanonicalWriter, read_canonical
from queryable_state.wire.errors import CorruptDataError, InvalidRequestError

PROPERTY = settings(max_examples=100)

Snapshot = dict[int, dict[bytes, bytes]]

KEYS = st.builds(
    lambda group, rest: group.to_bytes(2, "big") + rest,
    st.one_of(st.integers(0, 5), st.integers(0, 0xFFFF)),
    st.binary(max_size=6),
)
SNAPSHOTS: st.SearchStrategy[Snapshot] = st.dictionaries(
    st.integers(0, 2**32 - 1),
    st.dictionaries(KEYS, st.binary(max_size=20), max_size=30),
    max_size=4,
)


def write(local: Path, snapshot: Snapshot) -> None:
    with CanonicalWriter(local) as writer:
        for state_id, records in snapshot.items():
            assert writer.add(state_id, sorted(records.items())) == len(records)


def read(local: Path, first: int = 0, last: int = 0xFFFF) -> Snapshot:
    found: Snapshot = {}
    for state_id, records in read_canonical(local, first, last):
        state = found.setdefault(state_id, {})
        assert records
        assert sorted(records) == records
        assert not state or max(state) < records[0][0]
        state.update(records)
    return found


@PROPERTY
@given(SNAPSHOTS, st.integers(0, 0xFFFF), st.integers(0, 0xFFFF))
def test_a_range_of_key_groups_is_read_as_it_was_written(
    snapshot: Snapshot, one: int, other: int
) -> None:
    first, last = min(one, other), max(one, other)
    with tempfile.TemporaryDirectory() as folder:
        local = Path(folder) / "state"
        write(local, snapshot)
        assert read(local) == {each: records for each, records in snapshot.items() if records}
        clipped = {
            state_id: {
                key: value
                for key, value in records.items()
                if first <= int.from_bytes(key[:2], "big") <= last
            }
            for state_id, records in snapshot.items()
        }
        assert read(local, first, last) == {
            state_id: records for state_id, records in clipped.items() if records
        }


@PROPERTY
@given(st.data())
def test_what_is_not_as_written_is_refused(data: st.DataObject) -> None:
    snapshot = data.draw(SNAPSHOTS)
    with tempfile.TemporaryDirectory() as folder:
        local = Path(folder) / "state"
        write(local, snapshot)
        good = local.read_bytes()
        how = data.draw(st.sampled_from(("cut", "flip", "insert", "noise")))
        at = data.draw(st.integers(0, len(good) - 1))
        noise = data.draw(st.binary(min_size=1, max_size=12))
        bad = {
            "cut": good[:at],
            "flip": good[:at] + bytes([good[at] ^ 1 << at % 8]) + good[at + 1 :],
            "insert": good[:at] + noise + good[at:],
            "noise": noise,
        }[how]
        local.write_bytes(bad)
        with pytest.raises(CorruptDataError, match="state"):
            list(read_canonical(local))


def test_many_and_large_records_are_cut_into_blocks(tmp_path: Path) -> None:
    small = {n.to_bytes(4, "big"): b"%d" % n for n in range(3000)}
    large = {n.to_bytes(4, "big"): bytes([n]) * (400 << 10) for n in range(5)}
    write(tmp_path / "state", {1: small, 2: large})
    blocks = list(read_canonical(tmp_path / "state"))
    assert [(state_id, len(records)) for state_id, records in blocks] == [
        (1, 1024),
        (1, 1024),
        (1, 952),
        (2, 2),
        (2, 1),
        (2, 2),
    ]
    assert read(tmp_path / "state") == {1: small, 2: large}


def test_other_key_groups_are_not_looked_at(tmp_path: Path) -> None:
    """A damaged block of others does not keep a range from being read."""
    records = {n.to_bytes(2, "big") + b"k": bytes(600 << 10) for n in range(3)}
    write(tmp_path / "state", {1: records})
    data = bytearray((tmp_path / "state").read_bytes())
    data[100] ^= 1
    (tmp_path / "state").write_bytes(data)
    assert [key for _, found in read_canonical(tmp_path / "state", 1, 2) for key, _ in found] == [
        b"\x00\x01k",
        b"\x00\x02k",
    ]
    with pytest.raises(CorruptDataError, match=r"block at byte 6 .* fails its checksum"):
        list(read_canonical(tmp_path / "state", 0, 0))


def test_a_writer_refuses_what_could_not_be_read(tmp_path: Path) -> None:
    with CanonicalWriter(tmp_path / "state") as writer:
        writer.add(1, [(b"\x00\x00a", b"")])
        with pytest.raises(InvalidRequestError, match="state 1 is in this snapshot"):
            writer.add(1, [])
        with pytest.raises(InvalidRequestError, match="do not ascend"):
            writer.add(2, [(b"\x00\x00b", b""), (b"\x00\x00a", b"")])
        with pytest.raises(InvalidRequestError, match="no key group"):
            writer.add(3, [(b"\x00", b"")])
    writer.close()
    with pytest.raises(InvalidRequestError, match="closed"):
        writer.add(4, [(b"\x00\x00a", b"")])


def test_a_failed_write_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), CanonicalWriter(tmp_path / "state") as writer:
        writer.add(1, ((b"\x00\x00", b"%d" % (1 // n)) for n in (1, 0)))
    assert not (tmp_path / "state").exists()
