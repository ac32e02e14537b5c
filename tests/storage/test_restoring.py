"""A restored store is the version that was stored, on any backend and for any range."""

from __future__ import annotations

import tempfile
from itertools import product
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.storage.model import STATES, Batch, Changes, Contents, batches, of_groups, values
from tests.storage.stored import (
    ALL_GROUPS,
    BACKENDS,
    SMALL,
    Stored,
    new_store,
    restore_groups,
    restore_whole,
    store_snapshot,
)

from queryable_state.server.storage.overlay import OverlayBuilder
from queryable_state.server.storage.rocksdb.store import RocksDBStateStore
from queryable_state.wire.errors import CorruptDataError, UnknownStateError

GROUPS = 6
keys = st.tuples(st.integers(0, GROUPS - 1), st.binary(max_size=3)).map(
    lambda parts: parts[0].to_bytes(2) + parts[1]
)
records = st.dictionaries(st.tuples(st.sampled_from(STATES), keys), values, max_size=40)
boundaries = st.lists(st.integers(1, GROUPS - 1), max_size=3, unique=True).map(sorted)


def ranges(bounds: list[int]) -> list[tuple[int, int]]:
    """Inclusive ranges of all groups, divided before these."""
    return [(first, end - 1) for first, end in zip([0, *bounds], [*bounds, GROUPS], strict=True)]


def stored_as(backend: str, native: bool, contents: Contents, folder: Path) -> Stored:
    """A snapshot at version 5 of a store that holds this."""
    changes: Changes = [
        (state_id, [], [], dict(of_state))
        for state_id in STATES
        if (of_state := contents.of(state_id))
    ]
    with new_store(backend, folder / "store", STATES, 4) as store:
        store.seal(5, Batch(changes).overlay(), (1, 1))
        store.commit(5)
        while store.compact(5, 1000):
            pass
        with store.snapshot(5, folder / "native" if native else None) as snapshot:
            stored = store_snapshot(snapshot, folder / "canonical")
    store.destroy()
    return stored


@settings(max_examples=24, suppress_health_check=list(HealthCheck))
@given(
    source=st.sampled_from(BACKENDS),
    target=st.sampled_from(BACKENDS),
    contents=st.builds(Contents, records),
    before=boundaries,
    after=boundaries,
    native=st.booleans(),
)
def test_ranges_of_one_parallelism_become_those_of_another(
    source: str,
    target: str,
    contents: Contents,
    before: list[int],
    after: list[int],
    native: bool,
) -> None:
    """Narrower ranges, wider ones out of several sources, the same ones."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sources = [
            (
                first,
                last,
                stored_as(
                    source,
                    native,
                    Contents(of_groups(contents.records, first, last)),
                    folder / f"source-{first}",
                ),
            )
            for first, last in ranges(before)
        ]
        for first, last in ranges(after):
            overlapping = [
                stored
                for source_first, source_last, stored in sources
                if source_first <= last and first <= source_last
            ]
            store = restore_groups(
                target, folder / f"target-{first}", overlapping, STATES, first, last
            )
            expected = Contents(of_groups(contents.records, first, last))
            with store:
                assert store.committed_version == store.base_version == 5
                for state_id in STATES:
                    assert store.prefix(state_id, b"") == expected.of(state_id)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(
    source=st.sampled_from([("heap", False), ("rocksdb", False), ("rocksdb", True)]),
    target=st.sampled_from(BACKENDS),
    contents=st.builds(Contents, records),
    later=st.lists(batches, max_size=3),
)
def test_changelogs_after_a_snapshot_are_loaded_and_go_on(
    source: tuple[str, bool], target: str, contents: Contents, later: list[Batch]
) -> None:
    """`source`: a backend, and whether its snapshot has its native files."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stored = stored_as(*source, contents, folder)
        state_ids = (*STATES, 3, 4)
        with restore_whole(target, folder / "target", stored, state_ids) as store:
            for version, batch in enumerate(later, start=6):
                contents = contents.after(batch)
                store.load(version, batch.overlay())
                assert store.base_version == store.committed_version == version
            version = store.committed_version + 1
            staged = Batch([(STATES[0], [b""], [], {b"\x00\x00": b"staged"})])
            store.seal(version, staged.overlay(), (3, 9))
            assert store.staged_token == (3, 9)
            for state_id in STATES:
                assert store.prefix(state_id, b"") == contents.of(state_id)
            assert store.operator_state(3) == [*contents.lists.get(3, ())]
            store.commit(version)
            while store.compact(version, 1):
                pass
            assert store.prefix(STATES[0], b"") == [(b"\x00\x00", b"staged")]


@given(batch=batches, bounds=boundaries)
def test_a_clipped_changelog_changes_its_key_groups_only(batch: Batch, bounds: list[int]) -> None:
    assume(all(len(prefix) >= 2 for _, clears, _, _ in batch.changes for prefix in clears))
    some = [bytes(key) for key in product((0, 255), (0, 1, 2, 255), b"ab")]
    before = Contents({(state_id, key): b"old" for state_id in STATES for key in some})
    for first, last in [*ranges(bounds), (GROUPS, 0xFFFF)]:
        builder = OverlayBuilder()
        for block in batch.blocks():
            builder.add_clipped(block, first, last)
        overlay = builder.build()
        assert not overlay.operator_states
        with new_store("heap", Path(), STATES) as store:
            with store.bulk_load() as load:
                for state_id in STATES:
                    load.put(state_id, before.of(state_id))
            store.load(0, overlay)
            inside = of_groups(before.after(batch).records, first, last)
            outside = {
                place: value
                for place, value in before.records.items()
                if not of_groups({place: value}, first, last)
            }
            for state_id in STATES:
                assert store.prefix(state_id, b"") == Contents(inside | outside).of(state_id)


@pytest.mark.parametrize("target", BACKENDS)
def test_states_may_be_added_before_and_after_native_files_are_opened(
    target: str, tmp_path: Path
) -> None:
    stored = stored_as("rocksdb", True, Contents({(1, b"\x00\x01"): b"1"}), tmp_path)
    with restore_whole(target, tmp_path / "target", stored, [2, 1, 5]) as store:
        store.add_state(1)
        assert store.get(1, b"\x00\x01") == b"1"
        assert store.get(5, b"\x00\x01") is None
        store.load(6, Batch([(5, [], [], {b"\x00\x01": b"5"})]).overlay())
        assert store.get(5, b"\x00\x01") == b"5"
        with pytest.raises(UnknownStateError):
            store.get(6, b"\x00\x01")


def test_restoring_leaves_the_files_as_they_were(tmp_path: Path) -> None:
    """They are somebody's local copy: what a store does to its database must not reach them."""
    contents = Contents({(1, b"\x00\x01%04d" % number): b"1" for number in range(500)})
    stored = stored_as("rocksdb", True, contents, tmp_path)
    before = {path.name: path.read_bytes() for path in (tmp_path / "native").iterdir()}
    for round_ in range(2):
        with restore_whole("rocksdb", tmp_path / f"to-{round_}", stored, STATES) as store:
            store.load(6, Batch([(1, [b""], [], {b"\x00\x02": b"2"})]).overlay())
            store.snapshot(6, tmp_path / f"again-{round_}").close()
    restore_whole("heap", tmp_path / "heap", stored, STATES).close()
    assert {path.name: path.read_bytes() for path in (tmp_path / "native").iterdir()} == before
    assert list((tmp_path / "scratch").iterdir()) == []


def test_tables_are_linked_and_not_copied(tmp_path: Path) -> None:
    stored = stored_as("rocksdb", True, Contents({(1, b"\x00\x01"): b"1"}), tmp_path)
    table = next(path for path in stored.files.values() if path.suffix == ".sst")
    links = table.stat().st_nlink
    with restore_whole("rocksdb", tmp_path / "target", stored, STATES):
        assert table.stat().st_nlink == links + 1


def test_records_out_of_order_are_corrupt(tmp_path: Path) -> None:
    for backend in BACKENDS:
        with new_store(backend, tmp_path / "store", STATES) as store:
            with pytest.raises(CorruptDataError, match="not in key order"), store.bulk_load() as to:
                to.put(1, [(b"\x00\x02", b""), (b"\x00\x01", b"")])
            with pytest.raises(UnknownStateError), store.bulk_load() as to:
                to.put(9, [(b"\x00\x02", b"")])


@pytest.mark.parametrize("backend", BACKENDS)
def test_records_may_come_again_from_lower_keys(backend: str, tmp_path: Path) -> None:
    with new_store(backend, tmp_path / "store", STATES) as store:
        with store.bulk_load() as load:
            for group in (3, 1, 2, 1):
                load.put(1, [])
                load.put(1, [(b"\x00%c%c" % (group, tail), b"%d" % group) for tail in b"xyz"])
        found = store.prefix(1, b"")
        assert [key for key, _ in found] == [
            b"\x00%c%c" % (group, tail) for group in (1, 2, 3) for tail in b"xyz"
        ]


def large(tmp_path: Path) -> Stored:
    """A snapshot whose one table has many blocks."""
    contents = Contents(
        {(1, b"\x00\x01%06d" % number): b"%06d" % number for number in range(20_000)}
    )
    return stored_as("rocksdb", True, contents, tmp_path)


def test_a_damaged_table_is_never_read_as_a_shorter_one(tmp_path: Path) -> None:
    stored = large(tmp_path)
    table = max(stored.files.values(), key=lambda path: path.stat().st_size)
    data = bytearray(table.read_bytes())
    data[len(data) // 2] ^= 0xFF
    table.unlink()
    table.write_bytes(data)
    with pytest.raises(CorruptDataError, match="damaged"):
        list(stored.read(tmp_path / "scratch", *ALL_GROUPS))
    assert list((tmp_path / "scratch").iterdir()) == []


@pytest.mark.parametrize("missing", [".sst", "MANIFEST", "CURRENT"])
def test_missing_files_are_named(missing: str, tmp_path: Path) -> None:
    stored = large(tmp_path)
    rest = {name: path for name, path in stored.files.items() if missing not in name}
    assert len(rest) < len(stored.files)
    with pytest.raises(CorruptDataError, match="damaged or incomplete"):
        RocksDBStateStore.from_files(tmp_path / "target", SMALL, rest, 5)
    broken = Stored(5, rest, True, {})
    with pytest.raises(CorruptDataError, match="damaged or incomplete"):
        list(broken.read(tmp_path / "scratch", *ALL_GROUPS))
    whole = RocksDBStateStore.from_files(tmp_path / "target", SMALL, stored.files, 5)
    with whole:
        assert len(whole.prefix(1, b"\x00\x01")) == 20_000


def test_a_file_that_went_is_named(tmp_path: Path) -> None:
    stored = large(tmp_path)
    table = next(path for path in stored.files.values() if path.suffix == ".sst")
    table.unlink()
    with pytest.raises(CorruptDataError, match=table.name):
        RocksDBStateStore.from_files(tmp_path / "target", SMALL, stored.files, 5)
