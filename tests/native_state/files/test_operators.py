"""Operators, stores and types of a checkpoint, from its metadata or from its folders alone."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import pytest
from tests.native_state.files.conftest import EARLIER

from queryable_state.server.checkpoint.file_systems.local_storage import LocalStorage
from queryable_state.server.native_state.files.operator_metadata import StoreMetadata
from queryable_state.server.native_state.files.query_checkpoint import QueryCheckpoint
from queryable_state.wire.errors import CorruptDataError, InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

KEY = "spark.sql.shuffle.partitions"
JOIN_STORES = (
    "left-keyToNumValues",
    "left-keyWithIndexToValue",
    "right-keyToNumValues",
    "right-keyWithIndexToValue",
)


def _query(root: Path) -> QueryCheckpoint:
    return QueryCheckpoint(LocalStorage(), str(root))


@pytest.fixture
def root(checkpoint: Callable[[str], Path]) -> Path:
    """A checkpoint with one operator."""
    return checkpoint("aggregation-rocksdb-lz4")


def test_operators_are_described_by_their_metadata(checkpoint: Callable[[str], Path]) -> None:
    (aggregation,) = _query(checkpoint("aggregation-hdfs-lz4")).operators(5)
    assert (aggregation.operator_id, aggregation.name) == (0, "stateStoreSave")
    assert aggregation.stores == (StoreMetadata("default", 2, 0),)
    (join,) = _query(checkpoint("join-hdfs")).operators(5)
    assert join.name == "symmetricHashJoin"
    assert tuple(store.name for store in join.stores) == JOIN_STORES
    (collector,) = _query(checkpoint("collector-rocksdb")).operators(5)
    assert collector.name == "transformWithStateInPySparkExec"
    assert [each["stateName"] for each in collector.properties["stateVariables"]] == [
        "by_digit",
        "newest",
        "seen",
    ]
    assert collector.partitions == 2


def test_a_query_without_state_has_no_operators(root: Path) -> None:
    shutil.rmtree(root / "state")
    assert _query(root).operators(5) == []


@pytest.mark.parametrize(
    ("name", "stores"),
    [("aggregation-hdfs-lz4", ("default",)), ("join-rocksdb-unique-ids", JOIN_STORES)],
)
def test_without_metadata_the_folders_tell_stores_and_partitions(
    name: str, stores: tuple[str, ...], checkpoint: Callable[[str], Path]
) -> None:
    """Spark 3.5 writes schemas, but no metadata of operators."""
    root = checkpoint(name)
    shutil.rmtree(root / "state" / "0" / "_metadata")
    query = _query(root)
    (operator,) = query.operators(5)
    assert operator.name == ""
    assert operator.stores == tuple(StoreMetadata(store, 2, 0) for store in stores)
    assert "window" in query.schema(operator, stores[0]).default.key_schema or len(stores) > 1


@pytest.mark.parametrize(
    ("name", "partitions"), [("aggregation-rocksdb-lz4", 3), ("collector-rocksdb", 2)]
)
def test_a_repartitioned_query_has_the_partitions_of_the_batch(
    name: str, partitions: int, checkpoint: Callable[[str], Path]
) -> None:
    """Spark rewrites metadata of version 2 then, but never that of version 1."""
    root = checkpoint(name)
    for sums in (root / "offsets").glob(".*.crc"):
        sums.unlink()
    offsets = root / "offsets" / "8"
    text = offsets.read_text()
    offsets.write_text(text.replace('"spark.sql.shuffle.partitions":"2"', f'"{KEY}":"3"'))
    assert offsets.read_text() != text
    query = _query(root)
    assert query.operators(7)[0].partitions == 2
    assert query.operators(8)[0].partitions == partitions
    offsets.unlink()
    with pytest.raises(CorruptDataError, match="offsets/8 is lost: batch 8 is committed"):
        query.operators(8)


@pytest.mark.parametrize("name", EARLIER)
def test_checkpoints_of_earlier_releases_describe_their_query(
    name: str, checkpoint: Callable[[str], Path]
) -> None:
    query = _query(checkpoint(name))
    newest = query.committed_batches()[-1]
    (operator,) = query.operators(newest)
    assert operator.partitions == 2
    assert bool(operator.name) == ("spark-3.5" not in name)
    encoders = {
        family.encoder.kind
        for store in operator.stores
        for family in query.schema(operator, store.name).column_families.values()
    }
    prefixed = "sessions" in name or "collector" in name
    assert ("PrefixKeyScanStateEncoderSpec" in encoders) == prefixed


def test_types_of_column_families_come_with_their_encoders(
    checkpoint: Callable[[str], Path],
) -> None:
    query = _query(checkpoint("collector-rocksdb"))
    (operator,) = query.operators(5)
    families = query.schema(operator, "default").column_families
    assert set(families) == {"by_digit", "newest", "seen", "$rowCounter_seen"}
    by_digit = families["by_digit"]
    assert by_digit.encoder.kind == "PrefixKeyScanStateEncoderSpec"
    assert by_digit.encoder.prefix_columns == 1
    assert by_digit.user_key_schema is not None
    assert json.loads(by_digit.user_key_schema)["fields"][0]["name"] == "x"
    assert families["newest"].user_key_schema is None
    assert families["newest"].value_schemas == {0: families["newest"].value_schema}


def test_a_checkpoint_may_be_moved(checkpoint: Callable[[str], Path], tmp_path: Path) -> None:
    """Metadata names schema files by the URIs that they had."""
    moved = tmp_path / "moved"
    checkpoint("collector-rocksdb").rename(moved)
    query = _query(moved)
    (operator,) = query.operators(5)
    assert "/moved/" not in operator.stores[0].schema_files[0]
    assert query.schema(operator, "default").column_families


def test_a_store_that_the_operator_does_not_have_is_refused(root: Path) -> None:
    query = _query(root)
    (operator,) = query.operators(5)
    with pytest.raises(InvalidRequestError, match="no store 'left', only default"):
        query.schema(operator, "left")
