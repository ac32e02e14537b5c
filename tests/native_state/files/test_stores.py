"""Every version of every store of the fixtures, restored over all snapshots that lead to it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from rocksdict import AccessType
from tests.native_state.files.conftest import ALL_NAMES, EARLIER, NAMES, WITH_DELTAS
from tests.native_state.files.restored import (
    Store,
    change,
    restored,
    rocksdb_records,
    snapshot_records,
    stores,
)

from queryable_state.server.checkpoint.file_systems.local_storage import LocalStorage
from queryable_state.server.native_state.files.outcomes import (
    FileRemovedError,
    NotYetWrittenError,
)
from queryable_state.server.native_state.files.rocksdb.rocksdb_snapshot import RocksDbSnapshot
from queryable_state.server.native_state.files.row_checksums import row, rows
from queryable_state.server.native_state.files.store_files import Provider, RocksDbFiles
from queryable_state.wire.errors import CorruptDataError, VersionGoneError

if TYPE_CHECKING:
    from collections.abc import Callable

ROCKSDB = [name for name in NAMES if "rocksdb" in name]


def _stores(root: Path) -> list[Store]:
    return list(stores(LocalStorage(), str(root)))


def _snapshots(store: Store, version: int) -> list[int]:
    """Versions of all snapshots that lead to a version, newest first."""
    found: list[int] = []
    while True:
        try:
            plan = store.plan(version, avoid=tuple(found))
        except CorruptDataError:
            return found
        if plan.snapshot is None:
            return found
        found.append(plan.snapshot.version)


@pytest.mark.parametrize("name", ALL_NAMES)
def test_a_version_is_the_same_over_each_snapshot(
    name: str, checkpoint: Callable[[str], Path]
) -> None:
    for store in _stores(checkpoint(name)):
        version = store.newest
        expected = restored(store.files, store.plan(version))
        tried = _snapshots(store, version)
        assert tried, store.name
        assert expected, store.name
        for number in range(1, len(tried)):
            plan = store.plan(version, avoid=tuple(tried[:number]))
            assert plan.snapshot is not None
            assert restored(store.files, plan) == expected, (store.name, plan.snapshot.version)


@pytest.mark.parametrize("name", [*WITH_DELTAS, *EARLIER])
def test_following_by_deltas_gives_each_version(
    name: str, checkpoint: Callable[[str], Path]
) -> None:
    """What a server that follows has is what one that starts now has."""
    for store in _stores(checkpoint(name)):
        oldest, *later = sorted(store.ids)
        records = restored(store.files, store.plan(oldest))
        for version in later:
            delta = store.files.delta(version, store.ids[version])
            assert delta is not None
            change(records, delta.folded(), store.files.merge_delimiter)
            assert records == restored(store.files, store.plan(version)), (store.name, version)


def test_a_query_without_changelogs_is_followed_by_snapshots(
    checkpoint: Callable[[str], Path],
) -> None:
    for store in _stores(checkpoint("aggregation-rocksdb-zips")):
        assert store.files.delta(store.newest) is None
        plan = store.plan(store.newest)
        assert plan.deltas == ()
        assert plan.snapshot is not None
        assert plan.snapshot.version == store.newest


@pytest.mark.parametrize("name", ["aggregation-hdfs-lz4", "aggregation-rocksdb-lz4"])
def test_a_version_that_has_only_a_snapshot_has_no_delta(
    name: str, checkpoint: Callable[[str], Path]
) -> None:
    """Repartitioned state is written as snapshots."""
    for store in _stores(checkpoint(name)):
        snapshot = store.plan(store.newest).snapshot
        assert snapshot is not None
        version = range(snapshot.version, snapshot.version + 1)
        _remove(store, version, "changelog", "delta")
        assert store.files.delta(snapshot.version) is None


@pytest.mark.parametrize("name", ROCKSDB)
def test_a_snapshot_has_as_many_records_as_its_metadata_says(
    name: str, checkpoint: Callable[[str], Path]
) -> None:
    for store in _stores(checkpoint(name)):
        snapshot = store.plan(store.newest).snapshot
        assert isinstance(snapshot, RocksDbSnapshot)
        records = snapshot_records(snapshot)
        families = snapshot.column_families
        internal = {families[each] for each in snapshot.metadata.internal_column_families}
        counted = [key for key in records if not internal or _family(key) not in internal]
        assert len(counted) == snapshot.metadata.keys


@pytest.mark.parametrize("name", ROCKSDB)
def test_reading_and_writing_a_snapshot_leaves_the_checkpoint_as_it_is(
    name: str, checkpoint: Callable[[str], Path], tmp_path: Path
) -> None:
    """Data files are hard links; a RocksDB that compacts them removes only its own."""
    root = checkpoint(name)
    before = {path: path.read_bytes() for path in root.rglob("*") if path.is_file()}
    for number, store in enumerate(_stores(root)):
        snapshot = store.plan(store.newest).snapshot
        assert isinstance(snapshot, RocksDbFiles)
        directory = tmp_path / f"placed-{number}"
        snapshot.place(directory)
        data_files = list(directory.glob("*.sst"))
        assert data_files
        assert all(file.stat().st_nlink == 2 for file in data_files)
        assert rocksdb_records(directory, AccessType.read_write()) == snapshot_records(snapshot)
    assert {path: path.read_bytes() for path in root.rglob("*") if path.is_file()} == before


def test_merged_values_of_several_data_files_have_no_delimiter_between_them(
    checkpoint: Callable[[str], Path],
) -> None:
    """The options of the snapshot name no delimiter; RocksDB alone would put a comma there."""
    sizes = set()
    for store in _stores(checkpoint("collector-rocksdb")):
        snapshot = store.plan(store.newest).snapshot
        assert snapshot is not None
        seen = snapshot.column_families["seen"]
        for key, value in snapshot_records(snapshot).items():
            if _family(key) == seen:
                # A row of one number has 17 bytes, and its size stands before it.
                assert len(value) % 21 == 0
                sizes.add(len(value) // 21)
    assert max(sizes) > 5


@pytest.mark.parametrize("name", [name for name in NAMES if "checksums" in name])
def test_row_checksums_are_verified_and_removed(
    name: str, checkpoint: Callable[[str], Path]
) -> None:
    for store in _stores(checkpoint(name)):
        assert store.files.row_checksums
        for key, value in restored(store.files, store.plan(store.newest)).items():
            if store.files.provider is Provider.HDFS_BACKED:
                assert row(key, value, "file") == value[4:]
                continue
            found = rows(key, value, store.files.merge_delimiter, "file")
            assert sum(len(each) + 8 for each in found) == len(value)
            with pytest.raises(CorruptDataError):
                rows(key + b"x", value, store.files.merge_delimiter, "file")


@pytest.mark.parametrize("name", NAMES)
def test_a_version_that_is_not_there_yet_is_waited_for(
    name: str, checkpoint: Callable[[str], Path]
) -> None:
    # A batch may be begun when a query stops, so the version behind the newest may be there.
    for store in _stores(checkpoint(name)):
        with pytest.raises(NotYetWrittenError):
            store.files.plan(store.newest + 2)
        with pytest.raises(NotYetWrittenError):
            store.files.delta(store.newest + 2)


@pytest.mark.parametrize("name", WITH_DELTAS)
def test_a_version_whose_files_are_removed_is_gone(
    name: str, checkpoint: Callable[[str], Path]
) -> None:
    for store in _stores(checkpoint(name)):
        versions = sorted(store.ids)
        _remove(store, range(versions[4]))
        plan = store.plan(store.newest)
        assert plan.snapshot is not None
        with pytest.raises(VersionGoneError):
            store.plan(versions[1])
        with pytest.raises(VersionGoneError):
            store.files.delta(versions[1], store.ids[versions[1]])


@pytest.mark.parametrize("name", WITH_DELTAS)
def test_a_missing_delta_that_no_snapshot_replaces_is_damage(
    name: str, checkpoint: Callable[[str], Path]
) -> None:
    for store in _stores(checkpoint(name)):
        version = store.newest
        if len(store.plan(version, avoid=tuple(_snapshots(store, version)[:1])).deltas) < 2:
            continue
        _remove(store, range(version - 1, version))
        _remove(store, range(version - 1, version + 3), "zip", "snapshot")
        with pytest.raises(CorruptDataError, match=f"version {version - 1} is missing"):
            store.plan(version)


@pytest.mark.parametrize("name", WITH_DELTAS)
def test_a_file_that_vanishes_behind_the_plan_asks_for_a_new_plan(
    name: str, checkpoint: Callable[[str], Path]
) -> None:
    for store in _stores(checkpoint(name)):
        used = _snapshots(store, store.newest)
        plan = store.plan(store.newest, avoid=tuple(used[:-1]))
        assert plan.deltas
        _remove(store, range(store.newest))
        assert plan.snapshot is not None
        with pytest.raises(FileRemovedError):
            snapshot_records(plan.snapshot)
        with pytest.raises(FileRemovedError):
            plan.deltas[0].changes()


def _remove(store: Store, versions: range, *suffixes: str) -> None:
    """Removes files of versions, of all kinds or of the suffixes."""
    for file in Path(store.files.folder).iterdir():
        number = file.name.split(".")[0].split("_")[0]
        wanted = not suffixes or file.suffix.removeprefix(".") in suffixes
        if number.isdigit() and int(number) in versions and wanted:
            file.unlink()


def _family(key: bytes) -> int:
    """The id of the column family of a raw key."""
    return int.from_bytes(key[:2], "little")
