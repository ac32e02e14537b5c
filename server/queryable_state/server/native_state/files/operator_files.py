"""The folder `state` of a checkpoint: which operators and stores it has, and their types."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint.file_systems.storage import MissingFileError, join
from queryable_state.server.native_state.files.checked_reads import CheckedReads
from queryable_state.server.native_state.files.operator_metadata import (
    DEFAULT_STORE,
    OperatorMetadata,
    StoreMetadata,
    parse_operator,
)
from queryable_state.server.native_state.files.outcomes import damaged, not_yet_written
from queryable_state.server.native_state.files.store_schema import merge_schemas, parse_schema
from queryable_state.server.process.rate_limited_log import RateLimitedLog
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage
    from queryable_state.server.native_state.files.store_schema import StoreSchema

_warnings = RateLimitedLog(logging.getLogger(__name__))

_METADATA = "_metadata"
_SCHEMA = "schema"
_SCHEMAS = "_stateSchema"
# The last column of the keys of session windows; the others are the prefix for scans.
_SESSION_START = "sessionStartTime"


class OperatorFiles:
    """Metadata and schemas of all operators."""

    def __init__(self, storage: CheckpointStorage, folder: str) -> None:
        self._storage = storage
        self._folder = folder

    def ids(self) -> list[int]:
        """The ids of the operators, ascending; a folder without anything is none."""
        numbers = _numbers(self._storage.list(self._folder))
        return [each for each in numbers if self._has_files(each)]

    def operator(self, operator_id: int, batch: int) -> OperatorMetadata:
        """An operator as of a batch."""
        folder = join(self._folder, str(operator_id), _METADATA)
        newer = [each for each in _numbers(self._storage.list(join(folder, "v2"))) if each <= batch]
        reads = CheckedReads(self._storage, join(folder, "v2") if newer else folder)
        name = str(newer[-1]) if newer else "metadata"
        try:
            data = reads.read(name)
        except MissingFileError:
            return self._derived(operator_id)
        operator = parse_operator(data, reads.path(name))
        if operator.operator_id != operator_id:
            raise damaged(reads.path(name), f"it describes operator {operator.operator_id}")
        return operator

    def store_folder(self, operator_id: int, partition: int, store: str) -> str:
        """The folder with the versions of a store."""
        partition_folder = join(self._folder, str(operator_id), str(partition))
        return partition_folder if store == DEFAULT_STORE else join(partition_folder, store)

    def schema(self, operator: OperatorMetadata, store: str) -> StoreSchema:
        """The types of one store."""
        for each in operator.stores:
            if each.name == store:
                return self._schema(operator.operator_id, each)
        raise InvalidRequestError(
            f"operator {operator.operator_id} has no store {store!r}, only "
            f"{', '.join(each.name for each in operator.stores)}"
        )

    def _has_files(self, operator_id: int) -> bool:
        folder = join(self._folder, str(operator_id))
        if self._storage.list(folder):
            return True
        _warnings.write(
            logging.WARNING, folder, "%s is empty: it is of no operator and is left out", folder
        )
        return False

    def _schema(self, operator_id: int, store: StoreMetadata) -> StoreSchema:
        if not store.schema_files:
            reads = CheckedReads(
                self._storage, join(self.store_folder(operator_id, 0, store.name), _METADATA)
            )
            return self._parsed(reads, _SCHEMA, store.prefix_columns)
        # The files are named by URIs of the time when they were written: the checkpoint may have
        # been moved, or be mounted elsewhere.
        reads = CheckedReads(
            self._storage, join(self._folder, str(operator_id), _SCHEMAS, store.name)
        )
        names = [path.rstrip("/").rsplit("/", 1)[-1] for path in store.schema_files]
        return merge_schemas(self._parsed(reads, name, 0) for name in names)

    def _parsed(self, reads: CheckedReads, name: str, prefix_columns: int) -> StoreSchema:
        try:
            return parse_schema(reads.read(name), reads.path(name), prefix_columns)
        except MissingFileError as problem:
            raise not_yet_written(reads.path(name), "its operator has not run") from problem

    def _derived(self, operator_id: int) -> OperatorMetadata:
        """The operator as its folders show it; of an operator that Spark does not describe."""
        folder = join(self._folder, str(operator_id))
        partitions = _numbers(self._storage.list(folder))
        first = join(folder, "0")
        names = self._storage.list(first) if partitions else []
        stores = [
            name
            for name in names
            if name != _METADATA and _METADATA in self._storage.list(join(first, name))
        ]
        if _METADATA in names:
            stores.append(DEFAULT_STORE)
        if not stores:
            raise not_yet_written(join(first, _METADATA, _SCHEMA), "its operator has not run")
        return OperatorMetadata(
            operator_id=operator_id,
            name="",
            stores=tuple(
                StoreMetadata(name, partitions[-1] + 1, self._prefix_columns(operator_id, name))
                for name in sorted(stores)
            ),
        )

    def _prefix_columns(self, operator_id: int, store: str) -> int:
        schema = self._schema(operator_id, StoreMetadata(store, 1, 0)).default
        names = [each["name"] for each in json.loads(schema.key_schema)["fields"]]
        return len(names) - 1 if names and names[-1] == _SESSION_START else 0


def _numbers(names: list[str]) -> list[int]:
    return sorted(int(name) for name in names if name.isascii() and name.isdigit())
