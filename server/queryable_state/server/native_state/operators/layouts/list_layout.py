"""Layouts of lists: one record an element, in the order that Spark reads them in."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from queryable_state.server.native_state.operators.state_layout import StateLayout
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE, chunk_of, list_element

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


class ListLayout(StateLayout):
    """A LIST with one raw record a key in one table, which gives or counts the elements.

    The store key of the i-th element is that of the i-th append of batch 0.
    """

    def __init__(self, definition: StateDefinition, table: RawTable) -> None:
        self.definition = definition
        self.sources: tuple[int, ...] = (table.source,)
        self.tables: tuple[RawTable, ...] = (table,)
        self._table = table

    @abstractmethod
    def _elements(self, raw: RawReads, raw_key: bytes, raw_value: bytes, limit: int) -> list[bytes]:
        """The elements of a key, each an encoded list of one, at most `limit` (0: all).

        The raw record is that of the key in the table.
        """

    def get(self, raw: RawReads, record_key: bytes) -> bytes | None:
        raw_key, end = self._table.leading_raw_key(record_key)
        index = index_of(record_key[end:])
        if raw_key is None or index is None:
            return None
        elements = self._of_key(raw, raw_key, index + 1)
        return elements[index] if index < len(elements) else None

    def prefix(self, raw: RawReads, prefix: bytes, limit: int = 0) -> list[tuple[bytes, bytes]]:
        raw_key, end = self._table.leading_raw_key(prefix)
        if raw_key is None or prefix[end:] not in (b"", VOID_NAMESPACE):
            return []
        return list(list_records(prefix[:end], self._of_key(raw, raw_key, limit)))

    def scan(
        self, raw: RawView, partition: int, after: bytes = b"", keys: KeyRange | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        table = self._table
        for raw_key, raw_value in table.scan_behind(raw, partition, after, keys):
            elements = self._elements(raw, raw_key, raw_value, 0)
            yield from list_records(table.wire_key(partition, raw_key), elements)

    def changed_keys(self, changes: Overlay, partition: int) -> Iterator[bytes]:
        return self._table.changed_keys(changes, partition)

    def _of_key(self, raw: RawReads, raw_key: bytes, limit: int) -> list[bytes]:
        raw_value = raw.get(self._table.source, raw_key)
        return [] if raw_value is None else self._elements(raw, raw_key, raw_value, limit)


class StoredListLayout(ListLayout):
    """Layout of a LIST that Spark stores as one raw value with all elements."""

    def __init__(
        self,
        definition: StateDefinition,
        table: RawTable,
        read: Callable[[bytes, int, int], list[bytes]],
    ) -> None:
        """`read(raw_value, batch_time_ms, limit)` returns the first elements that have not expired.

        They are encoded; limit 0: all.
        """
        super().__init__(definition, table)
        self._read = read

    def _elements(self, raw: RawReads, raw_key: bytes, raw_value: bytes, limit: int) -> list[bytes]:
        return self._read(raw_value, raw.batch_time_ms, limit)


def list_records(wire_key: bytes, elements: list[bytes]) -> Iterator[tuple[bytes, bytes]]:
    """The records of a list's elements, each encoded as a list of one."""
    prefix = wire_key + VOID_NAMESPACE
    for index, element in enumerate(elements):
        yield prefix + list_element(0, index), element


def index_of(suffix: bytes) -> int | None:
    """The index that namespace and element of a list's record name; None if they name none."""
    if not suffix.startswith(VOID_NAMESPACE) or suffix == VOID_NAMESPACE:
        return None
    batch, index = chunk_of(suffix[len(VOID_NAMESPACE) :])
    return None if batch else index
