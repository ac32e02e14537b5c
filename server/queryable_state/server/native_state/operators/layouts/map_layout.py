"""Layout of maps: one raw record an entry, by grouping key and the entry's key."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from queryable_state.server.native_state.operators.layouts.grouped_layout import GroupedLayout
from queryable_state.server.native_state.operators.layouts.signed_zeros import (
    several_keys,
    zeros_in,
)
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.server.native_state.operators.layouts.key_columns import (
        Columns,
        KeyColumns,
    )
    from queryable_state.server.native_state.operators.layouts.raw_table import RawTable
    from queryable_state.server.native_state.operators.layouts.value_layout import ReadValue
    from queryable_state.server.native_state.operators.state_layout import RawReads, StateDefinition


class MapLayout(GroupedLayout):
    """Layout of a MAP: each raw key is the struct of the grouping key and that of the map key.

    Spark tells entries apart by the sign of a zero. Reads of a map that has both are refused.
    """

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
        map_key = self._map_keys.decode(element)
        if zeros_in(map_key):
            # Whatever the signs under which Spark stored them.
            return super().get(raw, record_key)
        raw_key = table.raw_keys.encode_key((columns, map_key))
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

    def _records(
        self, wire_key: bytes, raw_records: Iterator[tuple[Columns, bytes]], time_ms: int
    ) -> list[tuple[bytes, bytes]]:
        records = super()._records(wire_key, raw_records, time_ms)
        for (record_key, _), (next_key, _) in pairwise(records):
            if record_key == next_key:
                element = record_key[len(wire_key) + len(VOID_NAMESPACE) :]
                name = self.definition.queryable_name or self.definition.name
                entry = self._map_keys.decode(element)
                if zeros_in(entry):
                    raise several_keys(name, "entry", entry)
                raise several_keys(name, "key", self._table.keys.leading(wire_key)[0])
        return records
