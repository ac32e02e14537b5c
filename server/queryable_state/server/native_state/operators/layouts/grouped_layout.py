"""Layout of states whose records of a key are neighbours in raw order: prefix key encoding."""

from __future__ import annotations

from abc import abstractmethod
from itertools import groupby
from typing import TYPE_CHECKING

from queryable_state.server.native_state.operators.state_layout import StateLayout
from queryable_state.server.storage.key_order import prefix_end
from queryable_state.wire.keys.store_keys import namespace_end

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.server.native_state.operators.layouts.key_columns import Columns
    from queryable_state.server.native_state.operators.layouts.raw_table import RawTable
    from queryable_state.server.native_state.operators.state_layout import (
        KeyRange,
        RawReads,
        RawView,
        StateDefinition,
    )
    from queryable_state.server.storage.overlay import Overlay


class GroupedLayout(StateLayout):
    """A state with several raw records a key, all with the raw prefix of the key.

    A subclass translates one raw record; the values of a raw key are the grouping columns, or a
    struct of them, and what tells the records of a key apart.
    """

    def __init__(self, definition: StateDefinition, table: RawTable) -> None:
        self.definition = definition
        self.sources, self.tables = (table.source,), (table,)
        self._table = table

    @abstractmethod
    def _suffix_and_value(
        self, raw_values: Columns, raw_value: bytes, time_ms: int
    ) -> tuple[bytes, bytes] | None:
        """Namespace with element, and encoded value, of a raw record; None if it has expired.

        `raw_values` are the values of its raw key.
        """

    @abstractmethod
    def _prefix_values(self, columns: Columns) -> Columns:
        """The values that the raw prefix of a key is made of."""

    def get(self, raw: RawReads, record_key: bytes) -> bytes | None:
        _, end = self._table.keys.leading(record_key)
        namespace = record_key[: namespace_end(record_key, end)]
        return dict(self.prefix(raw, namespace)).get(record_key)

    def prefix(self, raw: RawReads, prefix: bytes, limit: int = 0) -> list[tuple[bytes, bytes]]:
        table = self._table
        columns, end = table.keys.leading(prefix)
        if columns is None:
            return []
        begin = table.raw_keys.encode_prefix(self._prefix_values(columns))
        found = raw.prefix(table.source, begin, limit)
        records = self._of_key(prefix, end, found, raw.batch_time_ms)
        if limit and len(found) == limit > len(records):
            # Some have expired or another namespace: others may be behind them.
            found = raw.prefix(table.source, begin)
            records = self._of_key(prefix, end, found, raw.batch_time_ms)
        return records[:limit] if limit else records

    def _of_key(
        self, prefix: bytes, key_end: int, found: list[tuple[bytes, bytes]], time_ms: int
    ) -> list[tuple[bytes, bytes]]:
        """Decodes raw records of a key; keeps those whose store key begins with `prefix`."""
        decode = self._table.raw_keys.decode_key
        decoded = ((decode(raw_key), value) for raw_key, value in found)
        records = self._records(prefix[:key_end], decoded, time_ms)
        if key_end == len(prefix):
            return records
        return [each for each in records if each[0].startswith(prefix)]

    def scan(
        self, raw: RawView, partition: int, after: bytes = b"", keys: KeyRange | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        table, time_ms = self._table, raw.batch_time_ms
        start, seen = b"", b""
        if after:
            columns, key_end = table.keys.leading(after)
            if columns is None:
                return
            start = table.raw_keys.encode_prefix(self._prefix_values(columns))
            seen = after
            if key_end == len(after):
                # Behind all records of the key.
                end = prefix_end(start)
                if end is None:
                    return
                start, seen = end, b""
        decode, wire_key = table.raw_keys.decode_key, table.keys.wire_key
        decoded = (
            (decode(raw_key), value) for raw_key, value in table.scan(raw, partition, start, keys)
        )
        for key, records in groupby(
            decoded, lambda each: wire_key(partition, table.columns(each[0]))
        ):
            for record in self._records(key, records, time_ms):
                if not seen or not seen.startswith(key) or record[0][: len(seen)] > seen:
                    yield record

    def changed_keys(self, changes: Overlay, partition: int) -> Iterator[bytes]:
        return self._table.changed_keys(changes, partition)

    def _records(
        self, wire_key: bytes, raw_records: Iterator[tuple[Columns, bytes]], time_ms: int
    ) -> list[tuple[bytes, bytes]]:
        """The records of one key in the order of their store keys."""
        records = []
        for values, raw_value in raw_records:
            found = self._suffix_and_value(values, raw_value, time_ms)
            if found is not None:
                records.append((wire_key + found[0], found[1]))
        records.sort()
        return records
