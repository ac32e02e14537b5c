"""Layout of maps: one raw record an entry, by grouping key and the entry's key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.native_state.operators.layouts.grouped_layout import GroupedLayout
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE

if TYPE_CHECKING:
    from queryable_state.server.native_state.operators.layouts.key_columns import (
        Columns,
        KeyColumns,
    )
    from queryable_state.server.native_state.operators.layouts.raw_table import RawTable
    from queryable_state.server.native_state.operators.layouts.value_layout import ReadValue
    from queryable_state.server.native_state.operators.state_layout import RawReads, StateDefinition


class MapLayout(GroupedLayout):
    """A MAP whose raw keys are a struct of the grouping key and a struct of the entry's key."""

    def __init__(
        self,
        definition: StateDefinition,
        table: RawTable,
        map_keys: KeyColumns,
        read: ReadValue,
    ) -> None:
        super().__init__(definition, table)
        self._map_keys = map_keys
        self._read = read

    def get(self, raw: RawReads, record_key: bytes) -> bytes | None:
        table = self._table
        columns, namespace, element = table.keys.split(record_key)
        if columns is None or namespace != VOID_NAMESPACE or not element:
            return None
        raw_key = table.raw_keys.encode_key((columns, self._map_keys.decode(element)))
        raw_value = raw.get(table.source, raw_key)
        return None if raw_value is None else self._read(raw_value, raw.batch_time_ms)

    def _suffix_and_value(
        self, raw_values: Columns, raw_value: bytes, time_ms: int
    ) -> tuple[bytes, bytes] | None:
        value = self._read(raw_value, time_ms)
        if value is None:
            return None
        return VOID_NAMESPACE + self._map_keys.encode(raw_values[1]), value

    def _prefix_values(self, columns: Columns) -> Columns:
        return (columns,)
