"""Checkpoints on S3, and how few requests it takes to follow a query."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.checkpoint.conftest import BUCKET, s3_endpoint, s3_options
from tests.native_state.files.restored import (
    change,
    restored,
    rocksdb_records,
    snapshot_records,
    stores,
)

from queryable_state.server.checkpoint.file_systems.local_storage import LocalStorage
from queryable_state.server.checkpoint.file_systems.storage import join
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.native_state.files.outcomes import FileRemovedError
from queryable_state.server.native_state.files.query_checkpoint import QueryCheckpoint
from queryable_state.server.native_state.files.rocksdb.rocksdb_snapshot import RocksDbSnapshot
from queryable_state.server.native_state.files.store_files import RocksDbFiles
from queryable_state.wire.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["s3_endpoint", "s3_options"]


@pytest.fixture
def s3_checkpoint(
    checkpoint: Callable[[str], Path], s3_options: dict[str, Any]
) -> Callable[[str], str]:
    """Uploads a fixture and returns its URI; Hadoop's checksums exist on local disks only."""

    def uploaded(name: str) -> str:
        folder = checkpoint(name)
        root = f"s3a://{BUCKET}/{folder.parent.name}/{name}"
        storage = storage_of(root, s3_options)
        for file in folder.rglob("*"):
            if file.is_file() and not file.name.startswith("."):
                storage.upload(file, join(root, str(file.relative_to(folder))))
        return root

    return uploaded


@pytest.mark.parametrize(
    "name",
    [
        "aggregation-hdfs-lz4",
        "aggregation-rocksdb-unique-ids",
        "aggregation-rocksdb-zips",
        "collector-rocksdb",
    ],
)
def test_a_checkpoint_on_s3_is_read_as_one_on_a_disk(
    name: str,
    s3_checkpoint: Callable[[str], str],
    s3_options: dict[str, Any],
    tmp_path: Path,
) -> None:
    root = s3_checkpoint(name)
    remote = stores(storage_of(root, s3_options), root)
    local = stores(LocalStorage(), str(tmp_path / name))
    for ours, theirs in zip(remote, local, strict=True):
        assert ours.ids == theirs.ids
        plan = ours.plan(ours.newest)
        assert restored(ours.files, plan) == restored(theirs.files, theirs.plan(ours.newest))


def test_the_checksums_of_spark_are_verified_on_s3(
    s3_checkpoint: Callable[[str], str], s3_options: dict[str, Any]
) -> None:
    root = s3_checkpoint("aggregation-rocksdb-unique-ids")
    storage = storage_of(root, s3_options)
    store = next(iter(stores(storage, root)))
    delta = store.plan(store.newest).deltas[-1]
    data = bytearray(storage.read(delta.path))
    data[len(data) // 2] ^= 1
    storage.write(delta.path, bytes(data))
    with pytest.raises(CorruptDataError, match=r"\.changelog is damaged"):
        delta.changes()


def test_data_files_that_vanish_during_the_download_ask_for_a_new_plan(
    s3_checkpoint: Callable[[str], str], s3_options: dict[str, Any], tmp_path: Path
) -> None:
    root = s3_checkpoint("aggregation-rocksdb-lz4")
    storage = storage_of(root, s3_options)
    store = next(iter(stores(storage, root)))
    newest = store.plan(store.newest).snapshot
    assert newest is not None
    older = store.plan(store.newest, avoid=(newest.version,)).snapshot
    assert isinstance(older, RocksDbFiles)
    storage.delete_tree(join(store.files.folder, "SSTs"))
    with pytest.raises(FileRemovedError):
        older.place(tmp_path / "placed")
    assert not (tmp_path / "placed").exists()


def test_the_next_snapshot_downloads_only_new_data_files(
    s3_checkpoint: Callable[[str], str], s3_options: dict[str, Any], tmp_path: Path
) -> None:
    """A query without changelogs writes a snapshot in each batch; most data files stay."""
    root = s3_checkpoint("aggregation-rocksdb-zips")
    storage = storage_of(root, s3_options)
    store = next(iter(stores(storage, root)))
    downloads = tmp_path / "downloads"
    for version in (store.newest - 1, store.newest):
        snapshot = store.plan(version).snapshot
        assert isinstance(snapshot, RocksDbSnapshot)
        snapshot.place(tmp_path / str(version), downloads)
        files = {file.path.rsplit("/", 1)[-1] for file in snapshot.metadata.files}
        assert {file.name for file in downloads.iterdir()} == files
        assert rocksdb_records(tmp_path / str(version)) == snapshot_records(snapshot)
    # What is kept needs no request any more.
    storage.delete_tree(join(store.files.folder, "SSTs"))
    newest = store.plan(store.newest).snapshot
    assert isinstance(newest, RocksDbSnapshot)
    newest.place(tmp_path / "again", downloads)
    assert rocksdb_records(tmp_path / "again")
    with pytest.raises(CorruptDataError, match="is missing"):
        newest.place(tmp_path / "without")


class _WithoutListings(LocalStorage):
    """Local files; the test fails if a folder is listed or a file is looked for."""

    def list(self, folder: str) -> list[str]:
        raise AssertionError(f"{folder} is listed")

    def exists(self, path: str) -> bool:
        raise AssertionError(f"{path} is looked for")


@pytest.mark.parametrize(
    "name", ["aggregation-hdfs-lz4", "aggregation-rocksdb-unique-ids", "collector-rocksdb"]
)
def test_a_query_is_followed_without_listing_a_folder(
    name: str, checkpoint: Callable[[str], Path]
) -> None:
    root = str(checkpoint(name))
    for before in stores(LocalStorage(), root):
        oldest, *later = sorted(before.ids)
        records = restored(before.files, before.plan(oldest))
        query = QueryCheckpoint(_WithoutListings(), root)
        operator, partition, store = before.name.split("/")
        files = query.store(int(operator), int(partition), store, query.offsets(oldest - 1).conf)
        for version in later:
            assert query.find_commit(version - 1)
            delta = files.delta(version, before.ids[version])
            assert delta is not None
            change(records, delta.folded(), files.merge_delimiter)
        assert not query.find_commit(later[-1])
        assert records == restored(before.files, before.plan(later[-1]))
