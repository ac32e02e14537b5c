"""What the logs of a checkpoint say about its query: batches, watermarks and settings."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING

import pytest

from queryable_state.server.checkpoint.file_systems.local_storage import LocalStorage
from queryable_state.server.native_state.files.outcomes import (
    NotYetWrittenError,
    UnsupportedFormatError,
)
from queryable_state.server.native_state.files.query_checkpoint import (
    MERGE_OPERATOR_VERSION,
    PROVIDER_CLASS,
    QueryCheckpoint,
)
from queryable_state.server.native_state.files.store_files import Provider
from queryable_state.wire.errors import (
    CheckpointError,
    CorruptDataError,
    InvalidRequestError,
    VersionGoneError,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PROVIDERS = "org.apache.spark.sql.execution.streaming.state"


def _query(root: Path) -> QueryCheckpoint:
    return QueryCheckpoint(LocalStorage(), str(root))


@pytest.fixture
def root(checkpoint: Callable[[str], Path]) -> Path:
    """A checkpoint with one operator."""
    return checkpoint("aggregation-rocksdb-lz4")


def test_the_id_of_the_query_is_the_one_in_its_metadata(root: Path) -> None:
    expected = uuid.UUID(json.loads((root / "metadata").read_text())["id"])
    assert _query(root).query_id() == expected.bytes


def test_another_folder_is_no_checkpoint(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="is no checkpoint of a Structured Streaming query"):
        _query(tmp_path).query_id()


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"id": 7}', '{"id": "x"}', '{"id": '])
def test_metadata_without_an_id_is_damage(text: str, tmp_path: Path) -> None:
    (tmp_path / "metadata").write_text(text)
    with pytest.raises(CorruptDataError, match="metadata is damaged"):
        _query(tmp_path).query_id()


def test_batches_are_committed_by_their_files(root: Path) -> None:
    """A batch that has begun has offsets, but it is not committed."""
    query = _query(root)
    batches = query.committed_batches()
    assert batches == list(range(10))
    assert query.offsets(10).batch == 10
    assert not query.find_commit(10)
    assert query.find_commit(9)
    with pytest.raises(NotYetWrittenError, match="commits/10"):
        query.commit(10)
    with pytest.raises(NotYetWrittenError, match="commits/10"):
        query.commit_time_ms(10)


def test_the_watermark_of_the_next_batch_is_in_the_commit_before_it(root: Path) -> None:
    query = _query(root)
    assert query.commit(8).next_watermark_ms == query.offsets(9).watermark_ms > 0
    assert query.commit(8).unique_ids == {}
    assert query.commit(8).unique_id(0, 1, 0) is None
    assert query.offsets(8).timestamp_ms < query.offsets(9).timestamp_ms


def test_temporary_files_are_no_batches(root: Path) -> None:
    for name in (".10.crc", ".10.3f.tmp", "10.tmp", "x10"):
        (root / "commits" / name).write_text("v1\n{}")
    assert _query(root).committed_batches() == list(range(10))


def test_a_batch_whose_files_are_removed_is_gone(root: Path) -> None:
    (root / "commits" / "2").unlink()
    (root / "offsets" / "2").unlink()
    with pytest.raises(VersionGoneError, match="batch 2"):
        _query(root).commit(2)
    with pytest.raises(VersionGoneError, match="batch 2"):
        _query(root).offsets(2)


@pytest.mark.parametrize("batch", [0, 2, 9])
def test_offsets_of_a_committed_batch_are_lost(batch: int, root: Path) -> None:
    """The job removes a batch from both logs."""
    (root / "offsets" / str(batch)).unlink()
    with pytest.raises(CorruptDataError, match=f"offsets/{batch} is lost: batch {batch} is comm"):
        _query(root).offsets(batch)


def test_an_empty_file_is_waited_for(root: Path) -> None:
    """A file system without atomic writes shows it before its bytes."""
    (root / "commits" / "10").touch()
    query = _query(root)
    assert not query.find_commit(10)
    with pytest.raises(NotYetWrittenError, match="commits/10"):
        query.commit(10)


@pytest.mark.parametrize("text", ["x", "v1\n{", 'v1\n{"nextBatchWatermarkMs":[]}', "v1\n[]"])
def test_a_broken_commit_is_damage(text: str, root: Path) -> None:
    (root / "commits" / "10").write_text(text)
    with pytest.raises(CorruptDataError, match="commits/10 is damaged"):
        _query(root).commit(10)


def test_a_commit_of_another_version_is_refused(root: Path) -> None:
    (root / "commits" / "10").write_text("v9\n{}")
    with pytest.raises(UnsupportedFormatError, match="version 9"):
        _query(root).commit(10)


def test_commits_of_all_versions_are_read(root: Path) -> None:
    query = _query(root)
    log = root / "commits"
    (log / "10").write_text('v1\n{"nextBatchWatermarkMs":5}')
    (log / "11").write_text('v2\n{"nextBatchWatermarkMs":6,"stateUniqueIds":{"0":[["a"],["b"]]}}')
    (log / "12").write_text(
        'v3\n{"nextBatchWatermarkMs":7,"stateUniqueIds":{"3":[["c","d"]]},"sinkMetadataMap":{}}'
    )
    (log / "13").write_text("v1")
    assert query.commit(10).next_watermark_ms == 5
    assert query.commit(11).unique_id(0, 1, 0) == "b"
    assert query.commit(12).unique_id(3, 0, 1) == "d"
    assert query.commit(13).next_watermark_ms == 0
    with pytest.raises(InvalidRequestError, match="batch 11 has 2 partitions of operator 0"):
        query.commit(11).unique_id(0, 2, 0)


def test_offsets_of_both_versions_are_read(root: Path) -> None:
    log = root / "offsets"
    (log / "20").write_text('v2\n{"batchWatermarkMs":7,"batchTimestampMs":9,"conf":{}}\n0:{"x":1}')
    (log / "21").write_text("v1\n\n-")
    assert _query(root).offsets(20).watermark_ms == 7
    assert _query(root).offsets(21).conf == {}


def test_a_flipped_byte_in_a_log_is_found_by_its_checksum(root: Path) -> None:
    file = root / "commits" / "9"
    file.write_bytes(file.read_bytes().replace(b"4", b"3", 1))
    with pytest.raises(CorruptDataError, match="commits/9 is damaged"):
        _query(root).commit(9)


def test_the_provider_comes_from_the_settings_of_the_batch(
    checkpoint: Callable[[str], Path],
) -> None:
    for name, provider in (
        ("aggregation-hdfs-lz4", Provider.HDFS_BACKED),
        ("aggregation-rocksdb-lz4", Provider.ROCKSDB),
    ):
        query = _query(checkpoint(name))
        conf = query.offsets(3).conf
        assert query.provider(conf) is provider
        assert query.store(0, 1, "default", conf).provider is provider


def test_another_provider_or_merge_operator_is_refused_by_name(root: Path) -> None:
    query = _query(root)
    with pytest.raises(UnsupportedFormatError, match=r"com\.example\.Store"):
        query.provider({PROVIDER_CLASS: "com.example.Store"})
    rocksdb = {PROVIDER_CLASS: f"{PROVIDERS}.RocksDBStateStoreProvider"}
    with pytest.raises(UnsupportedFormatError, match="version 7 of the merge operator"):
        query.store(0, 0, "default", {**rocksdb, MERGE_OPERATOR_VERSION: "7"})
    assert query.store(0, 0, "default", rocksdb).merge_delimiter == b","
    second = {**rocksdb, MERGE_OPERATOR_VERSION: "2"}
    assert query.store(0, 0, "default", second).merge_delimiter == b""


def test_without_a_recorded_provider_it_is_the_default_of_spark(root: Path) -> None:
    assert _query(root).provider({}) is Provider.HDFS_BACKED
