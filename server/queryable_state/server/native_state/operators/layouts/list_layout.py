"""Layouts of lists: one record an element, in the order that Spark reads them in."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from queryable_state.server.native_state.operators.state_layout import StateLayout
from queryable_state.server.storage.key_order import key_after
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE, chunk_of, list_element

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


class ListLayout(StateLayout):
    """A LIST with one raw record a key in one table, which gives or counts the elements.

    The store key of the i-th element is that of the i-th append of batch 0.
    """

    def __init__(self, definition: StateDefinition, table: RawTable) -> None:
        self.definition = definition
        self.sources: tuple[int, ...] = (table.source,)
        self._table = table

    @abstractmethod
    def _elements(
        self, raw: RawReads, columns: Columns, raw_value: bytes, limit: int
    ) -> list[bytes]:
        """The elements of a key, each an encoded list of one, at most `limit` (0: all).

        `raw_value` is the raw value of the key in the table.
        """

    def get(self, raw: RawReads, record_key: bytes) -> bytes | None:
        columns, namespace, element = self._table.keys.split(record_key)
        if columns is None or namespace != VOID_NAMESPACE or not element:
            return None
        batch, index = chunk_of(element)
        elements = [] if batch else self._of_key(raw, columns, index + 1)
        return elements[index] if index < len(elements) else None

    def prefix(self, raw: RawReads, prefix: bytes, limit: int = 0) -> list[tuple[bytes, bytes]]:
        columns, end = self._table.keys.leading(prefix)
        if columns is None or prefix[end:] not in (b"", VOID_NAMESPACE):
            return []
        return list(list_records(prefix[:end], self._of_key(raw, columns, limit)))

    def scan(
        self, raw: RawView, partition: int, after: bytes = b""
    ) -> Iterator[tuple[bytes, bytes]]:
        table = self._table
        decode, wire_key = table.raw_keys.decode_key, table.keys.wire_key
        start = b""
        if after:
            start = key_after(table.raw_key(table.keys.columns(after)))
        for raw_key, raw_value in table.scan(raw, start):
            columns = table.columns(decode(raw_key))
            elements = self._elements(raw, columns, raw_value, 0)
            yield from list_records(wire_key(partition, columns), elements)

    def changed_keys(self, changes: Overlay, partition: int) -> Iterator[bytes]:
        return self._table.changed_keys(changes, partition)

    def _of_key(self, raw: RawReads, columns: Columns, limit: int) -> list[bytes]:
        raw_value = raw.get(self._table.source, self._table.raw_key(columns))
        return [] if raw_value is None else self._elements(raw, columns, raw_value, limit)


class StoredListLayout(ListLayout):
    """A LIST whose raw value has all its elements."""

    def __init__(
        self,
        definition: StateDefinition,
        table: RawTable,
        read: Callable[[bytes, int], list[bytes]],
    ) -> None:
        """`read(raw_value, batch_time_ms)` returns the encoded elements that have not expired."""
        super().__init__(definition, table)
        self._read = read

    def _elements(
        self, raw: RawReads, columns: Columns, raw_value: bytes, limit: int
    ) -> list[bytes]:
        elements = self._read(raw_value, raw.batch_time_ms)
        return elements[:limit] if limit else elements


def list_records(wire_key: bytes, elements: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """The records of a list's elements, each encoded as a list of one."""
    prefix = wire_key + VOID_NAMESPACE
    for index, element in enumerate(elements):
        yield prefix + list_element(0, index), element
