"""Fixtures of real state: what a checkpoint says, its raw records, and the answers of Spark."""

from __future__ import annotations

import json
from base64 import b64decode
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from queryable_state.server.native_state.files.operator_metadata import parse_operator
from queryable_state.server.native_state.files.store_schema import merge_schemas, parse_schema
from queryable_state.server.native_state.operators.operator_states import states_of
from queryable_state.server.native_state.operators.operator_tables import OperatorTables
from queryable_state.server.storage.heap.store import HeapStateStore

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from queryable_state.server.native_state.operators.state_layout import StateLayout
    from queryable_state.server.storage.store import StateView

FIXTURES = Path(__file__).parent / "fixtures"
NAMES = sorted(file.stem for file in FIXTURES.glob("*.json"))


class RawPartition:
    """The raw records of one partition as of one batch, in a heap store."""

    def __init__(self, stores: Sequence[dict[bytes, bytes]], batch_time_ms: int) -> None:
        self.batch_time_ms = batch_time_ms
        self._store = HeapStateStore(0)
        for source, records in enumerate(stores):
            self._store.add_state(source)
            with self._store.bulk_load() as load:
                load.put(source, sorted(records.items()))
        self._view: StateView = self._store.view()

    def get(self, source: int, key: bytes) -> bytes | None:
        return self._view.get(source, key)

    def prefix(self, source: int, prefix: bytes, limit: int = 0) -> list[tuple[bytes, bytes]]:
        return self._view.prefix(source, prefix, limit)

    def scan(self, source: int, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        return self._view.scan(source, start, end)


@dataclass(frozen=True)
class StateFixture:
    """The states of one query, its raw records and Spark's answers."""

    layouts: dict[str, StateLayout]
    """By queryable name."""
    stores: dict[int, list[list[dict[bytes, bytes]]]]
    """By operator and partition: the raw records of each store."""
    expected: dict[str, list[dict[str, Any]]]
    """Rows of Spark's state reader, by operator and state."""
    batch_time_ms: int

    def partitions(self, layout: StateLayout, time_ms: int | None = None) -> list[RawPartition]:
        """The partitions of the state, as of another time if one is given."""
        stores = self.stores[layout.definition.operator_id]
        time_ms = self.batch_time_ms if time_ms is None else time_ms
        return [
            RawPartition(partition, time_ms) for partition in stores[: layout.definition.partitions]
        ]


@lru_cache(maxsize=4)
def load(name: str) -> StateFixture:
    """A fixture of this folder."""
    content = json.loads((FIXTURES / f"{name}.json").read_text())
    operators, stores = [], {}
    for each in content["operators"]:
        metadata = parse_operator(each["metadata"].encode(), name)
        prefix_columns = {store.name: store.prefix_columns for store in metadata.stores}
        schemas = {
            store: merge_schemas(
                parse_schema(b64decode(file), name, prefix_columns[store]) for file in files
            )
            for store, files in each["schemas"].items()
        }
        operators.append(OperatorTables(metadata, schemas, content["conf"], each["family_ids"]))
        stores[metadata.operator_id] = [
            [
                {bytes.fromhex(key): bytes.fromhex(value) for key, value in records}
                for records in partition
            ]
            for partition in each["partitions"]
        ]
    found = states_of(operators)
    assert not found.refusals
    layouts = {layout.definition.queryable_name: layout for layout in found.layouts}
    return StateFixture(layouts, stores, content["expected"], content["batch_time_ms"])
