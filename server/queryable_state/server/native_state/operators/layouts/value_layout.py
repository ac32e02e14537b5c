"""Layout of states with one value a key, which is one raw record."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from queryable_state.server.native_state.operators.layouts.raw_table import RawTable
from queryable_state.server.native_state.operators.layouts.signed_zeros import with_signed_zeros
from queryable_state.server.native_state.operators.state_layout import StateLayout
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.server.native_state.operators.layouts.key_columns import KeyColumns
    from queryable_state.server.native_state.operators.operator_tables import OperatorTables
    from queryable_state.server.native_state.operators.state_layout import (
        KeyRange,
        RawReads,
        RawView,
        StateDefinition,
    )
    from queryable_state.server.storage.overlay import Overlay

ReadValue = Callable[[bytes, int], bytes | None]
"""`read(raw_value, batch_time_ms)` returns the encoded value; None if it has expired then."""


def signed_value_layout(
    operator: OperatorTables, definition: StateDefinition, keys: KeyColumns, read: ReadValue
) -> StateLayout:
    """The layout of an operator that has one value for each key, whose zeros have signs."""

    def layout(keys: KeyColumns) -> StateLayout:
        table = RawTable(operator.source(), operator.raw_keys(), keys)
        return ValueLayout(definition, table, read)

    return with_signed_zeros(keys, layout)


class ValueLayout(StateLayout):
    """Layout of a VALUE: the raw key is the encoded grouping key and nothing else."""

    def __init__(self, definition: StateDefinition, table: RawTable, read: ReadValue) -> None:
        self.definition = definition
        self.sources, self.tables = (table.source,), (table,)
        self._table = table
        self._read = read

    def get(self, raw: RawReads, record_key: bytes) -> bytes | None:
        raw_key, end = self._table.leading_raw_key(record_key)
        if raw_key is None or record_key[end:] != VOID_NAMESPACE:
            return None
        raw_value = raw.get(self._table.source, raw_key)
        return None if raw_value is None else self._read(raw_value, raw.batch_time_ms)

    def prefix(self, raw: RawReads, prefix: bytes, limit: int = 0) -> list[tuple[bytes, bytes]]:
        raw_key, end = self._table.leading_raw_key(prefix)
        if raw_key is None or prefix[end:] not in (b"", VOID_NAMESPACE):
            return []
        raw_value = raw.get(self._table.source, raw_key)
        value = None if raw_value is None else self._read(raw_value, raw.batch_time_ms)
        return [] if value is None else [(prefix[:end] + VOID_NAMESPACE, value)]

    def scan(
        self, raw: RawView, partition: int, after: bytes = b"", keys: KeyRange | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        table, read, time_ms = self._table, self._read, raw.batch_time_ms
        for raw_key, raw_value in table.scan_behind(raw, partition, after, keys):
            value = read(raw_value, time_ms)
            if value is not None:
                yield table.wire_key(partition, raw_key) + VOID_NAMESPACE, value

    def changed_keys(self, changes: Overlay, partition: int) -> Iterator[bytes]:
        return self._table.changed_keys(changes, partition)
