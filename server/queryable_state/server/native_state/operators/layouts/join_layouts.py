"""Layouts of one side of a stream-stream join: its rows by join key."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from queryable_state.server.native_state.operators.layouts.list_layout import (
    ListLayout,
    list_records,
)
from queryable_state.server.native_state.operators.state_layout import StateLayout
from queryable_state.server.storage.key_order import prefix_end
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE, chunk_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from queryable_state.server.native_state.operators.layouts.key_columns import Columns
    from queryable_state.server.native_state.operators.layouts.raw_table import RawTable
    from queryable_state.server.native_state.operators.state_layout import (
        RawReads,
        RawView,
        StateDefinition,
    )
    from queryable_state.server.storage.overlay import Overlay


class IndexedRowsLayout(ListLayout):
    """Rows that are raw records by key and index, with their number by key in a second table.

    The rows of a key have the indexes from 0 to before their number. Spark may leave holes, if
    told to skip nulls; they are no elements.
    """

    def __init__(
        self,
        definition: StateDefinition,
        counts: RawTable,
        rows: RawTable,
        read_count: Callable[[bytes], int],
        read_row: Callable[[bytes], bytes],
    ) -> None:
        """`read_row(raw_value)` returns the row as an encoded list of one."""
        super().__init__(definition, counts)
        self.sources = (counts.source, rows.source)
        self._rows = rows
        self._read_count = read_count
        self._read_row = read_row

    def _elements(
        self, raw: RawReads, columns: Columns, raw_value: bytes, limit: int
    ) -> list[bytes]:
        rows, encode_key = self._rows, self._rows.raw_keys.encode_key
        elements: list[bytes] = []
        for index in range(self._read_count(raw_value)):
            row = raw.get(rows.source, encode_key((*columns, index)))
            if row is not None:
                elements.append(self._read_row(row))
                if len(elements) == limit:
                    break
        return elements

    def changed_keys(self, changes: Overlay, partition: int) -> Iterator[bytes]:
        yield from super().changed_keys(changes, partition)
        yield from self._rows.changed_keys(changes, partition)


class TimedRowsLayout(StateLayout):
    """Rows that are raw records by key and event time, each with all rows of that time.

    They come by event time, then in the order of their arrival.
    """

    def __init__(
        self,
        definition: StateDefinition,
        table: RawTable,
        read_rows: Callable[[bytes], list[bytes]],
    ) -> None:
        """`read_rows(raw_value)` returns the rows, each as an encoded list of one."""
        self.definition = definition
        self.sources = (table.source,)
        self._table = table
        self._read_rows = read_rows

    def get(self, raw: RawReads, record_key: bytes) -> bytes | None:
        columns, namespace, element = self._table.keys.split(record_key)
        if columns is None or namespace != VOID_NAMESPACE or not element:
            return None
        batch, index = chunk_of(element)
        rows = [] if batch else self._of_key(raw, columns, index + 1)
        return rows[index] if index < len(rows) else None

    def prefix(self, raw: RawReads, prefix: bytes, limit: int = 0) -> list[tuple[bytes, bytes]]:
        columns, end = self._table.keys.leading(prefix)
        if columns is None or prefix[end:] not in (b"", VOID_NAMESPACE):
            return []
        return list(list_records(prefix[:end], self._of_key(raw, columns, limit)))

    def scan(
        self, raw: RawView, partition: int, after: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        table = self._table
        start = b""
        if after:
            end = prefix_end(table.raw_keys.encode_prefix(table.keys.columns(after)))
            if end is None:
                return
            start = end
        decode, wire_key = table.raw_keys.decode_key, table.keys.wire_key

        def key_of(record: tuple[bytes, bytes]) -> bytes:
            return wire_key(partition, table.columns(decode(record[0])))

        for key, records in groupby(table.scan(raw, start), key_of):
            rows = [row for _, raw_value in records for row in self._read_rows(raw_value)]
            yield from list_records(key, rows)

    def changed_keys(self, changes: Overlay, partition: int) -> Iterator[bytes]:
        return self._table.changed_keys(changes, partition)

    def _of_key(self, raw: RawReads, columns: Columns, limit: int) -> list[bytes]:
        table = self._table
        rows: list[bytes] = []
        # Each raw record has at least one row.
        for _, raw_value in raw.prefix(table.source, table.raw_keys.encode_prefix(columns), limit):
            rows.extend(self._read_rows(raw_value))
        return rows[:limit] if limit else rows
