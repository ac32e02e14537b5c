"""Changelogs of all versions and deltas: read back exactly, and damaged ones refused."""

from __future__ import annotations

from struct import pack

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.native_state.files.damage import FILE, suppress_named
from tests.native_state.files.spark_writers import changelog, java_text

from queryable_state.server.native_state.files.changes import (
    Change,
    ChangeKind,
    FoldedChanges,
    fold,
)
from queryable_state.server.native_state.files.outcomes import UnsupportedFormatError
from queryable_state.server.native_state.files.rocksdb.changelog import Changelog, LineageItem
from queryable_state.wire.errors import CorruptDataError

PUT, DELETE, MERGE = ChangeKind.PUT, ChangeKind.DELETE, ChangeKind.MERGE

_keys = st.one_of(st.binary(max_size=20), st.sampled_from([b"a", b"b", b"c"]))
_puts = st.tuples(st.just(PUT), _keys, st.binary(max_size=40))
_deletes = st.tuples(st.just(DELETE), _keys, st.just(b""))
_merges = st.tuples(st.just(MERGE), _keys, st.binary(max_size=40))
_plain = st.lists(st.one_of(_puts, _deletes), max_size=30)
_merging = st.lists(st.one_of(_puts, _deletes, _merges), max_size=30)
_LINEAGE = [(5, "0b7d"), (6, "1c8e")]


def _changes(version: int) -> st.SearchStrategy[list[Change]]:
    return _merging if version in (2, 4) else _plain


@pytest.mark.parametrize("version", [1, 2, 3, 4])
@settings(max_examples=40)
@given(data=st.data())
def test_changes_are_read_in_their_order(version: int, data: st.DataObject) -> None:
    changes = data.draw(_changes(version))
    log = Changelog(changelog(version, changes, _LINEAGE), FILE)
    assert log.version == version
    assert list(log.changes()) == changes


def test_versions_3_and_4_tell_the_ids_of_the_versions_before() -> None:
    for version in (3, 4):
        log = Changelog(changelog(version, [], _LINEAGE[::-1]), FILE)
        assert log.lineage == (LineageItem(5, "0b7d"), LineageItem(6, "1c8e"))
    assert Changelog(changelog(2, []), FILE).lineage == ()


@pytest.mark.parametrize("version", [1, 2, 3, 4])
@settings(max_examples=40)
@given(data=st.data(), kept=st.floats(0, 1, exclude_max=True))
def test_a_changelog_that_is_cut_off_is_damaged(
    version: int, data: st.DataObject, kept: float
) -> None:
    """Whatever it yields before it fails are the first of its changes."""
    changes = data.draw(_changes(version))
    whole = changelog(version, changes, _LINEAGE)
    read: list[Change] = []
    with pytest.raises(CorruptDataError, match=r"7\.changelog"):
        read.extend(Changelog(whole[: int(kept * len(whole))], FILE).changes())
    assert read == changes[: len(read)]


@pytest.mark.parametrize("version", [1, 2, 3, 4])
@settings(max_examples=100)
@given(data=st.data(), at=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_a_flipped_byte_is_read_or_an_error_that_names_the_file(
    version: int, data: st.DataObject, at: float, flip: int
) -> None:
    whole = bytearray(changelog(version, data.draw(_changes(version)), _LINEAGE))
    whole[int(at * len(whole))] ^= flip
    with suppress_named():
        list(Changelog(bytes(whole), FILE).changes())


@pytest.mark.parametrize("version", [1, 2])
def test_bytes_behind_the_end_are_damage(version: int) -> None:
    """A size that was flipped to the end mark must not hide the records behind it."""
    with pytest.raises(CorruptDataError, match="follow its end mark"):
        list(Changelog(changelog(version, []) + b"\0", FILE).changes())


@pytest.mark.parametrize("version", [0, 1, 5, 12])
def test_another_version_is_refused(version: int) -> None:
    with pytest.raises(UnsupportedFormatError, match=f"version {version},"):
        Changelog(java_text(f"v{version}") + bytes(5), FILE)


def test_a_long_first_key_is_no_version() -> None:
    """Version 1 has no header: its first bytes are the size of a key."""
    key = bytes(0x1_2345)
    log = Changelog(changelog(1, [(PUT, key, b"x")]), FILE)
    assert list(log.changes()) == [(PUT, key, b"x")]


def test_a_negative_size_is_damage() -> None:
    for version, record in ((1, pack(">i", -2)), (2, b"\1" + pack(">i", -5))):
        head = changelog(version, [])[: -4 if version == 1 else -1]
        with pytest.raises(CorruptDataError):
            list(Changelog(head + record + bytes(20), FILE).changes())


@settings(max_examples=40)
@given(changes=_merging, old=st.dictionaries(_keys, st.binary(max_size=9), max_size=4))
def test_folded_changes_have_the_effect_of_all_in_their_order(
    changes: list[Change], old: dict[bytes, bytes]
) -> None:
    expected = dict(old)
    for kind, key, value in changes:
        if kind is DELETE:
            expected.pop(key, None)
        elif kind is PUT or key not in expected:
            expected[key] = value
        else:
            expected[key] += b"," + value
    assert _applied(old, fold(iter(changes), b",")) == expected


def _applied(old: dict[bytes, bytes], folded: FoldedChanges) -> dict[bytes, bytes]:
    assert not folded.values.keys() & folded.appended.keys()
    records = dict(old)
    for key, value in folded.values.items():
        if value is None:
            records.pop(key, None)
        else:
            records[key] = value
    for key, value in folded.appended.items():
        records[key] = records[key] + b"," + value if key in records else value
    return records


def test_merged_values_are_joined_by_the_delimiter_of_the_store() -> None:
    changes = [(MERGE, b"k", b"1"), (MERGE, b"k", b"2")]
    assert fold(iter(changes), b"").appended == {b"k": b"12"}
    assert fold(iter(changes), b",").appended == {b"k": b"1,2"}
