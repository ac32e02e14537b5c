"""Raw tables: one column family of a source, and the state's key within its raw keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from queryable_state.server.storage.key_order import prefix_end

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from queryable_state.server.native_state.operators.layouts.key_columns import (
        Columns,
        KeyColumns,
    )
    from queryable_state.server.native_state.operators.state_layout import RawView
    from queryable_state.server.storage.overlay import Overlay


class RawKeys(Protocol):
    """Codec of the raw keys of one column family, the family's own prefix included."""

    @property
    def family(self) -> bytes:
        """The first bytes of all raw keys of the family; empty if the source has no families."""

    def encode_key(self, values: Columns) -> bytes:
        """The raw key of these values, exactly as Spark writes it."""

    def encode_prefix(self, values: Columns) -> bytes:
        """The first bytes of all raw keys that begin with these values, the encoder's prefix."""

    def decode_key(self, raw_key: bytes) -> Columns:
        """The values of a raw key."""


class RawTable:
    """The raw records of one column family, as they belong to keys of a state. Immutable.

    `columns_of` takes the grouping columns out of the values of a raw key, `values_of` makes the
    values of a raw key of them; None: all values are grouping columns.
    """

    def __init__(
        self,
        source: int,
        raw_keys: RawKeys,
        keys: KeyColumns,
        columns_of: Callable[[Columns], Columns] | None = None,
        values_of: Callable[[Columns], Columns] | None = None,
    ) -> None:
        self.source = source
        self.raw_keys = raw_keys
        self.keys = keys
        self._columns_of = columns_of
        self._values_of = values_of
        self._end = prefix_end(raw_keys.family) if raw_keys.family else None

    def columns(self, values: Columns) -> Columns:
        """The grouping columns among the values of a raw key."""
        return values if self._columns_of is None else self._columns_of(values)

    def raw_key(self, columns: Columns) -> bytes:
        """The raw key of these grouping columns, if nothing else is in it."""
        values = columns if self._values_of is None else self._values_of(columns)
        return self.raw_keys.encode_key(values)

    def scan(self, raw: RawView, start: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Raw records of the family from a raw key on (b"": from its first one)."""
        return raw.scan(self.source, start or self.raw_keys.family, self._end)

    def changed_keys(self, changes: Overlay, partition: int) -> Iterator[bytes]:
        """The wire keys of the raw records that a batch changes."""
        changed = changes.states.get(self.source)
        if changed is None:
            return
        family, decode = self.raw_keys.family, self.raw_keys.decode_key
        for raw_key in changed.records:
            if raw_key.startswith(family):
                columns = self.columns(decode(raw_key))
                yield self.keys.wire_key(partition, columns)
