"""Layout of states with one value a key, which is one raw record."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from queryable_state.server.native_state.operators.state_layout import StateLayout
from queryable_state.server.storage.key_order import key_after
from queryable_state.wire.keys.store_keys import RESULT_ELEMENT, VOID_NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.server.native_state.operators.layouts.raw_table import RawTable
    from queryable_state.server.native_state.operators.state_layout import (
        RawReads,
        RawView,
        StateDefinition,
    )
    from queryable_state.server.storage.overlay import Overlay

ReadValue = Callable[[bytes, int], bytes | None]
"""`read(raw_value, batch_time_ms)` returns the encoded value; None if it has expired then."""


class ValueLayout(StateLayout):
    """A VALUE whose raw key is the key itself."""

    def __init__(self, definition: StateDefinition, table: RawTable, read: ReadValue) -> None:
        self.definition = definition
        self.sources = (table.source,)
        self._table = table
        self._read = read

    def get(self, raw: RawReads, record_key: bytes) -> bytes | None:
        table = self._table
        columns, namespace, element = table.keys.split(record_key)
        if columns is None or namespace != VOID_NAMESPACE or element != RESULT_ELEMENT:
            return None
        raw_value = raw.get(table.source, table.raw_key(columns))
        return None if raw_value is None else self._read(raw_value, raw.batch_time_ms)

    def prefix(self, raw: RawReads, prefix: bytes, limit: int = 0) -> list[tuple[bytes, bytes]]:
        _, end = self._table.keys.leading(prefix)
        if prefix[end:] not in (b"", VOID_NAMESPACE):
            return []
        record_key = prefix[:end] + VOID_NAMESPACE
        value = self.get(raw, record_key)
        return [] if value is None else [(record_key, value)]

    def scan(
        self, raw: RawView, partition: int, after: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        table, read, time_ms = self._table, self._read, raw.batch_time_ms
        decode, wire_key = table.raw_keys.decode_key, table.keys.wire_key
        start = b""
        if after:
            start = key_after(table.raw_key(table.keys.columns(after)))
        for raw_key, raw_value in table.scan(raw, start):
            value = read(raw_value, time_ms)
            if value is not None:
                yield wire_key(partition, table.columns(decode(raw_key))) + VOID_NAMESPACE, value

    def changed_keys(self, changes: Overlay, partition: int) -> Iterator[bytes]:
        return self._table.changed_keys(changes, partition)
