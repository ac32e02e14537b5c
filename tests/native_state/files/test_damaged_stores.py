"""Damaged, cut off and missing files of a store: a typed error with its name, or the truth."""

from __future__ import annotations

import random
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.native_state.files.restored import Store, restored, snapshot_records, stores

from queryable_state.server.checkpoint.file_systems.local_storage import LocalStorage
from queryable_state.server.native_state.files.outcomes import (
    FileRemovedError,
    UnsupportedFormatError,
)
from queryable_state.server.native_state.files.store_files import RocksDbFiles
from queryable_state.wire.errors import CorruptDataError, Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.native_state.files.store_files import StoreSnapshot

# One of each format and codec.
FORMATS = [
    "aggregation-hdfs-lz4",
    "aggregation-hdfs-lzf",
    "aggregation-hdfs-snappy",
    "aggregation-hdfs-zstd-checksums",
    "aggregation-rocksdb-unique-ids",
    "aggregation-rocksdb-zips",
    "collector-rocksdb",
]
CHECKED = [name for name in FORMATS if "snappy" not in name and "lzf" not in name]
FLIPS = 5


def _first_store(root: Path) -> Store:
    return next(iter(stores(LocalStorage(), str(root))))


def _state_files(store: Store, root: Path) -> list[Path]:
    """The files of the newest snapshot and of the deltas behind it."""
    plan = store.plan(store.newest)
    paths = [delta.path for delta in plan.deltas]
    if plan.snapshot is not None:
        paths.append(plan.snapshot.path)
    return [root / path.removeprefix(f"{root}/") for path in paths]


def _remove_checksums(root: Path) -> None:
    for sums in root.rglob("*.crc"):
        sums.unlink()


@pytest.mark.parametrize("name", FORMATS)
def test_a_flipped_bit_is_found_by_the_checksum_beside_the_file(
    name: str, checkpoint: Callable[[str], Path]
) -> None:
    root = checkpoint(name)
    store = _first_store(root)
    for file in _state_files(store, root):
        whole = file.read_bytes()
        changed = bytearray(whole)
        changed[len(whole) // 2] ^= 0x10
        file.write_bytes(changed)
        with pytest.raises(CorruptDataError, match=file.name) as raised:
            restored(store.files, store.plan(store.newest))
        assert raised.value.reason == Reason.CHECKSUM_MISMATCH
        file.write_bytes(whole)


@pytest.mark.parametrize("name", CHECKED)
def test_a_flipped_bit_is_found_without_a_checksum_beside_the_file(
    name: str, checkpoint: Callable[[str], Path]
) -> None:
    """lz4 and zips have checksums of their own; elsewhere only the structure can show damage."""
    root = checkpoint(name)
    store = _first_store(root)
    expected = restored(store.files, store.plan(store.newest))
    files = _state_files(store, root)
    _remove_checksums(root)
    dice = random.Random(name)
    for file in files:
        whole = file.read_bytes()
        for _ in range(FLIPS):
            changed = bytearray(whole)
            changed[dice.randrange(len(whole))] ^= 1 << dice.randrange(8)
            file.write_bytes(changed)
            try:
                read = restored(store.files, store.plan(store.newest))
            except (CorruptDataError, UnsupportedFormatError) as problem:
                if file.name not in problem.message:
                    raise
            else:
                assert "zstd" in name or read == expected, file
        file.write_bytes(whole)


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_that_is_cut_off_is_damage(name: str, checkpoint: Callable[[str], Path]) -> None:
    root = checkpoint(name)
    store = _first_store(root)
    files = _state_files(store, root)
    _remove_checksums(root)
    for file in files:
        whole = file.read_bytes()
        for kept in (0, 1, 10, len(whole) // 2, len(whole) - 1):
            file.write_bytes(whole[:kept])
            with pytest.raises(CorruptDataError, match=file.name):
                restored(store.files, store.plan(store.newest))
        file.write_bytes(whole)


@pytest.mark.parametrize("name", ["aggregation-rocksdb-lz4", "aggregation-hdfs-lz4"])
def test_a_damaged_snapshot_is_replaced_by_an_older_one(
    name: str, checkpoint: Callable[[str], Path]
) -> None:
    root = checkpoint(name)
    store = _first_store(root)
    expected = restored(store.files, store.plan(store.newest))
    snapshot = _snapshot(store)
    (root / snapshot.path.removeprefix(f"{root}/")).write_bytes(b"damaged")
    with pytest.raises(CorruptDataError):
        snapshot_records(_snapshot(store))
    plan = store.plan(store.newest, avoid=(snapshot.version,))
    assert restored(store.files, plan) == expected


def _snapshot(store: Store) -> StoreSnapshot:
    snapshot = store.plan(store.newest).snapshot
    assert snapshot is not None
    return snapshot


@pytest.fixture
def rocksdb(checkpoint: Callable[[str], Path]) -> Store:
    """A store with a snapshot, without checksum files."""
    root = checkpoint("aggregation-rocksdb-lz4")
    _remove_checksums(root)
    return _first_store(root)


def test_a_data_file_of_another_size_is_damage(rocksdb: Store, tmp_path: Path) -> None:
    data_file = _newest_data_file(rocksdb)
    data_file.write_bytes(data_file.read_bytes()[:-1])
    directory = tmp_path / "placed"
    with pytest.raises(CorruptDataError, match=data_file.name):
        _placed(rocksdb, directory)
    assert not directory.exists()


def test_a_missing_data_file_of_the_newest_snapshot_is_damage(
    rocksdb: Store, tmp_path: Path
) -> None:
    data_file = _newest_data_file(rocksdb)
    data_file.unlink()
    with pytest.raises(CorruptDataError, match=data_file.name):
        _placed(rocksdb, tmp_path / "placed")


def test_a_missing_data_file_of_an_older_snapshot_was_removed_by_the_job(
    rocksdb: Store, tmp_path: Path
) -> None:
    """Spark removes data files before the zips that name them."""
    plan = rocksdb.plan(rocksdb.newest, avoid=(_snapshot(rocksdb).version,))
    for data_file in _data_files(rocksdb):
        data_file.unlink()
    assert isinstance(plan.snapshot, RocksDbFiles)
    with pytest.raises(FileRemovedError):
        plan.snapshot.place(tmp_path / "placed")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"metadata": b"v1\n{"}, "metadata is no description"),
        ({"metadata": b'v1\n{"sstFiles":[{"localFileName":"../x"}]}'}, "metadata is no descr"),
        ({"../outside": b""}, "outside of its folder"),
        ({"metadata": None}, "has no metadata"),
    ],
)
def test_a_zip_with_other_contents_is_damage(
    change: dict[str, bytes | None], text: str, rocksdb: Store, tmp_path: Path
) -> None:
    _rewrite(rocksdb, change)
    with pytest.raises(CorruptDataError, match=text):
        _placed(rocksdb, tmp_path / "placed")


def test_a_snapshot_of_another_format_is_refused(rocksdb: Store, tmp_path: Path) -> None:
    for change in ({"metadata": b"v2\n{}"}, {"OPTIONS-000007": b"  merge_operator=Sum\n"}):
        _rewrite(rocksdb, dict(change))
        with pytest.raises(UnsupportedFormatError):
            _placed(rocksdb, tmp_path / "placed")


def _rewrite(store: Store, change: dict[str, bytes | None]) -> None:
    path = Path(_snapshot(store).path)
    with zipfile.ZipFile(path) as archive:
        members: dict[str, bytes | None] = {each: archive.read(each) for each in archive.namelist()}
    members.update(change)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in members.items():
            if data is not None:
                archive.writestr(name, data)


def _placed(store: Store, directory: Path) -> None:
    snapshot = _snapshot(store)
    assert isinstance(snapshot, RocksDbFiles)
    snapshot.place(directory)


def _data_files(store: Store) -> list[Path]:
    return sorted(Path(store.files.folder).glob("SSTs/*.sst"))


def _newest_data_file(store: Store) -> Path:
    return _data_files(store)[-1]
