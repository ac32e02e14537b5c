"""Raw tables: one column family of a source, and the state's key within its raw keys."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from queryable_state.server.native_state.operators.layouts.text_ranges import (
    records_between,
    text_range,
)
from queryable_state.server.storage.key_order import key_after, prefix_end
from queryable_state.wire.schema.type_model import Kind

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from queryable_state.server.native_state.operators.layouts.family_keys import FamilyKeys
    from queryable_state.server.native_state.operators.layouts.key_columns import (
        Columns,
        KeyColumns,
    )
    from queryable_state.server.native_state.operators.state_layout import KeyRange, RawView
    from queryable_state.server.storage.overlay import Overlay

_KEY_GROUP_BYTES = 2


class RawTable:
    """The raw records of one column family, as they belong to keys of a state. Immutable.

    `columns_of` takes the grouping columns out of the values of a raw key, `values_of` makes the
    values of a raw key of them; None: all values are grouping columns.
    """

    def __init__(
        self,
        source: int,
        raw_keys: FamilyKeys,
        keys: KeyColumns,
        columns_of: Callable[[Columns], Columns] | None = None,
        values_of: Callable[[Columns], Columns] | None = None,
    ) -> None:
        self.source = source
        self.raw_keys = raw_keys
        self.keys = keys
        self._columns_of = columns_of
        self._values_of = values_of
        self.transcoder = raw_keys.transcoder
        """The transcoder of the grouping columns; None: keys go through values of Python."""
        if self.transcoder is not None and self.transcoder.width != keys.width:
            # The row has more columns than the key.
            self.transcoder = None
        is_text = keys.key_type.kind in (Kind.STRING, Kind.BINARY)
        self._text_row_start = raw_keys.text_row_start if is_text else None
        self.family = raw_keys.family
        self.end = prefix_end(raw_keys.family) if raw_keys.family else None

    def columns(self, values: Columns) -> Columns:
        """The grouping columns among the values of a raw key."""
        return values if self._columns_of is None else self._columns_of(values)

    def raw_key(self, columns: Columns) -> bytes:
        """The raw key of these grouping columns; only for raw keys that hold nothing else."""
        values = columns if self._values_of is None else self._values_of(columns)
        return self.raw_keys.encode_key(values)

    def leading_raw_key(self, record_key: bytes) -> tuple[bytes | None, int]:
        """The raw key, without a tail, of the wire key that a store key begins with, and its end.

        None for a key that no record has.
        """
        transcoder = self.transcoder
        if transcoder is not None:
            row, end = transcoder.row(record_key, _KEY_GROUP_BYTES)
            return self.raw_keys.of_row(row), end
        columns, end = self.keys.leading(record_key)
        return None if columns is None else self.raw_key(columns), end

    def wire_key(self, partition: int, raw_key: bytes) -> bytes:
        """The wire key of a raw key."""
        transcoder = self.transcoder
        if transcoder is not None:
            row = self.raw_keys.row_of(raw_key)
            return partition.to_bytes(_KEY_GROUP_BYTES) + transcoder.key(row)
        return self.keys.wire_key(partition, self.columns(self.raw_keys.decode_key(raw_key)))

    def scan(
        self, raw: RawView, partition: int, begin: bytes, keys: KeyRange | None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Raw records of the family from a raw key on (b"": from its first one).

        Those of keys that are not in `keys` may be left out.
        """
        read, begin = partial(self._read, raw), begin or self.family
        if keys is None or self._text_row_start is None:
            return read(begin)
        return records_between(read, begin, self._text_row_start, text_range(keys, partition))

    def _read(self, raw: RawView, begin: bytes) -> Iterator[tuple[bytes, bytes]]:
        return raw.scan(self.source, begin, self.end)

    def scan_behind(
        self, raw: RawView, partition: int, after: bytes, keys: KeyRange | None
    ) -> Iterator[tuple[bytes, bytes]]:
        """Raw records of the family behind that of a wire key (b"": all); raw keys have no tail.

        Those of keys that are not in `keys` may be left out.
        """
        begin = b""
        if after:
            last, _ = self.leading_raw_key(after)
            if last is None:
                return iter(())
            begin = key_after(last)
        return self.scan(raw, partition, begin, keys)

    def changed_keys(self, changes: Overlay, partition: int) -> Iterator[bytes]:
        """The wire keys of the raw records that a batch changes."""
        changed = changes.states.get(self.source)
        if changed is None:
            return
        family = self.family
        for raw_key in changed.records:
            if raw_key.startswith(family):
                yield self.wire_key(partition, raw_key)
