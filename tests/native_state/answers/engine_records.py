"""Records of the states of a checkpoint, read by the engine without a server."""

from __future__ import annotations

import itertools
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.native_state.answers.records import Record, plain

from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.native_state.files.query_checkpoint import QueryCheckpoint
from queryable_state.server.native_state.server.batch_facts import BatchFacts
from queryable_state.server.native_state.server.states_reader import StatesReader
from queryable_state.server.native_state.store.batch_times import BatchTimes
from queryable_state.server.native_state.store.native_store import NativeStore
from queryable_state.v1 import registration_pb2
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.keys.store_keys import micros_of_window, namespace_end
from queryable_state.wire.keys.timer_keys import timer_of
from queryable_state.wire.schema.type_model import Kind, TypeInfo
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from queryable_state.server.native_state.operators.state_layout import (
        StateDefinition,
        StateLayout,
    )
    from queryable_state.server.native_state.server.query_states import OperatorStates


@dataclass(frozen=True)
class EngineState:
    """One state and its stores, one a partition."""

    state_id: int
    layout: StateLayout
    stores: list[NativeStore]

    @property
    def definition(self) -> StateDefinition:
        """What the state is."""
        return self.layout.definition

    def records(self) -> list[Record]:
        """All records, by scans of all partitions."""
        return [
            decode(key, value)
            for decode in [decoder(self.definition)]
            for store in self.stores
            for key, value in self._scanned(store)
        ]

    def looked_up(self) -> list[Record]:
        """The same records, each read by its whole key."""
        return [
            decode(key, found)
            for decode in [decoder(self.definition)]
            for store in self.stores
            for key, _ in self._scanned(store)
            if (found := store.get(self.state_id, key)) is not None
        ]

    def _scanned(self, store: NativeStore) -> list[tuple[bytes, bytes]]:
        with store.view() as view:
            return list(view.scan(self.state_id, b"", None))


@contextmanager
def engine_states(
    checkpoint: str, batch: int, folder: Path
) -> Iterator[tuple[list[EngineState], int]]:
    """The states of a checkpoint as of a batch, and the batch's time in milliseconds."""
    numbers = itertools.count()

    def new_directory() -> Path:
        return folder / f"store-{next(numbers)}"

    query = QueryCheckpoint(storage_of(checkpoint, {}), checkpoint)
    facts = BatchFacts.of(query, batch)
    states = StatesReader(query, query.query_id(), "query", new_directory).read(facts)
    times = BatchTimes()
    times.add(batch, facts.timestamp_ms)
    opened: list[NativeStore] = []
    try:
        found = []
        for operator in states.operators:
            stores = [
                _store(operator, partition, facts, times)
                for partition in range(operator.partitions)
            ]
            opened += stores
            found += [
                EngineState(state_id, layout, stores)
                for state_id, layout in operator.layouts.items()
            ]
        yield found, facts.timestamp_ms
    finally:
        for store in opened:
            store.destroy()


def _store(
    operator: OperatorStates, partition: int, facts: BatchFacts, times: BatchTimes
) -> NativeStore:
    ids = [
        facts.entry.unique_id(operator.operator_id, partition, source)
        for source in range(operator.sources)
    ]
    raw = operator.files(partition).open(facts.batch, ids)
    return NativeStore(raw, operator.layouts, partition, times)


def decoder(definition: StateDefinition) -> Callable[[bytes, bytes], Record]:
    """Makes records of store keys and encoded values of one state."""
    key_codec = KeyCodec(definition.key_type)
    is_list = definition.kind == registration_pb2.LIST
    is_row = definition.value_type is not None and definition.value_type.kind == Kind.ROW
    value_codec = None
    if definition.value_type is not None:
        stored = definition.value_type
        value_codec = ValueCodec.of(TypeInfo(Kind.LIST, element=stored) if is_list else stored)

    def element_of(data: bytes) -> Any:
        if definition.kind == registration_pb2.TIMER:
            return timer_of(data)[1]
        if definition.map_key_type is None:
            return None
        element = plain(KeyCodec(definition.map_key_type).decode_all(data))
        return element if definition.map_key_type.kind == Kind.ROW else [element]

    def decode(record_key: bytes, data: bytes) -> Record:
        key, key_end = key_codec.decode(record_key, 2)
        end = namespace_end(record_key, key_end)
        value: Any = None if value_codec is None else plain(value_codec.decode(data))
        if is_list:
            (value,) = value
        # A row of one column is the column.
        if value is not None and not is_row and definition.operator == "transformWithState":
            value = [value]
        return Record(
            int.from_bytes(record_key[:2]),
            plain(key) if definition.key_type.kind == Kind.ROW else [plain(key)],
            micros_of_window(record_key[key_end:end]),
            element_of(record_key[end:]),
            value,
        )

    return decode
