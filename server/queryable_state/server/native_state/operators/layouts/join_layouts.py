"""Layouts of one side of a stream-stream join: its rows by join key."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from queryable_state.server.native_state.operators.layouts.list_layout import (
    ListLayout,
    index_of,
    list_records,
)
from queryable_state.server.native_state.operators.state_layout import StateLayout
from queryable_state.server.native_state.rows.unsafe_row import WORD, null_words
from queryable_state.server.storage.key_order import prefix_end
from queryable_state.wire.errors import CorruptDataError
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE

_MOST_HOLES = 1000
"""Rows that may be missing beyond the number of those found: a damaged number has no end."""

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from queryable_state.server.native_state.operators.layouts.raw_table import RawTable
    from queryable_state.server.native_state.operators.state_layout import (
        KeyRange,
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
        self.sources, self.tables = (counts.source, rows.source), (counts, rows)
        self._rows = rows
        # The index is the last column of the row that a raw key is.
        columns = rows.keys.width + 1
        self._index_place = len(rows.raw_keys.of_row(b"")) + null_words(columns)
        self._index_place += WORD * (columns - 1)
        self._read_count = read_count
        self._read_row = read_row

    def _elements(self, raw: RawReads, raw_key: bytes, raw_value: bytes, limit: int) -> list[bytes]:
        rows, place = self._rows, self._index_place
        columns = self._table.raw_keys.decode_key(raw_key)
        first = rows.raw_keys.encode_key((*columns, 0))
        head, tail = first[:place], first[place + WORD :]
        elements: list[bytes] = []
        holes = 0
        for index in range(self._read_count(raw_value)):
            row = raw.get(rows.source, head + index.to_bytes(WORD, "little") + tail)
            if row is not None:
                elements.append(self._read_row(row))
                if len(elements) == limit:
                    break
            else:
                holes += 1
                if holes > len(elements) + _MOST_HOLES:
                    raise CorruptDataError(
                        f"a join key has {self._read_count(raw_value)} rows by its number, and "
                        f"{holes} of the first {index + 1} are missing"
                    )
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
        self.sources, self.tables = (table.source,), (table,)
        self._table = table
        self._read_rows = read_rows

    def get(self, raw: RawReads, record_key: bytes) -> bytes | None:
        begin, end = self._begin(record_key)
        index = index_of(record_key[end:])
        if begin is None or index is None:
            return None
        rows = self._of_key(raw, begin, index + 1)
        return rows[index] if index < len(rows) else None

    def prefix(self, raw: RawReads, prefix: bytes, limit: int = 0) -> list[tuple[bytes, bytes]]:
        begin, end = self._begin(prefix)
        if begin is None or prefix[end:] not in (b"", VOID_NAMESPACE):
            return []
        return list(list_records(prefix[:end], self._of_key(raw, begin, limit)))

    def scan(
        self, raw: RawView, partition: int, after: bytes = b"", keys: KeyRange | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        table, start = self._table, b""
        if after:
            begin, _ = self._begin(after)
            end = None if begin is None else prefix_end(begin)
            if end is None:
                return
            start = end
        for key, records in groupby(
            table.scan(raw, partition, start, keys),
            lambda record: table.wire_key(partition, record[0]),
        ):
            rows = [row for _, raw_value in records for row in self._read_rows(raw_value)]
            yield from list_records(key, rows)

    def changed_keys(self, changes: Overlay, partition: int) -> Iterator[bytes]:
        return self._table.changed_keys(changes, partition)

    def _begin(self, record_key: bytes) -> tuple[bytes | None, int]:
        """The common prefix of all raw keys of a wire key, and where the wire key ends."""
        table = self._table
        if table.transcoder is not None:
            return table.leading_raw_key(record_key)
        columns, end = table.keys.leading(record_key)
        return None if columns is None else table.raw_keys.encode_prefix(columns), end

    def _of_key(self, raw: RawReads, begin: bytes, limit: int) -> list[bytes]:
        rows: list[bytes] = []
        # Each raw record has at least one row.
        for _, raw_value in raw.prefix(self._table.source, begin, limit):
            rows.extend(self._read_rows(raw_value))
        return rows[:limit] if limit else rows
