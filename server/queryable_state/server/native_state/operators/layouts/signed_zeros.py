"""Layout of states whose keys differ by the sign of a zero.

Spark takes 0.0 and -0.0 in a grouping column for one key in aggregations, sessions and joins, and
for two keys in all other operators. Encoded keys have no sign of zeros.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.server.native_state.operators.state_layout import StateLayout
from queryable_state.wire.errors import InvalidRequestError, Reason
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE
from queryable_state.wire.schema.type_model import Kind, given

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from queryable_state.server.native_state.operators.layouts.key_columns import KeyColumns
    from queryable_state.server.native_state.operators.state_layout import (
        KeyRange,
        RawReads,
        RawView,
    )
    from queryable_state.server.storage.overlay import Overlay
    from queryable_state.wire.schema.type_model import TypeInfo

_MOST_ZEROS = 4
"""In a key: each doubles the raw keys that it may stand for."""


def with_signed_zeros(
    keys: KeyColumns, layout_of: Callable[[KeyColumns], StateLayout]
) -> StateLayout:
    """The layout of a state by these keys, whose zeros Spark stores with their signs.

    `layout_of` makes it for given keys.
    """
    plain = layout_of(keys)
    return SignedZerosLayout(plain, keys, layout_of) if _has_floats(keys.key_type) else plain


class SignedZerosLayout(StateLayout):
    """Finds a key with zeros under whatever signs Spark stored them.

    Reads of a key that is several keys for Spark are refused: one would hide the others.
    """

    def __init__(
        self,
        plain: StateLayout,
        keys: KeyColumns,
        layout_of: Callable[[KeyColumns], StateLayout],
    ) -> None:
        """`plain`: the layout for keys without negative zeros."""
        self.definition = plain.definition
        self.sources, self.tables = plain.sources, plain.tables
        self._plain = plain
        self._keys = keys
        self._layout_of = layout_of
        self._signed = {0: plain}

    def get(self, raw: RawReads, record_key: bytes) -> bytes | None:
        return self._stored(raw, record_key).get(raw, record_key)

    def prefix(self, raw: RawReads, prefix: bytes, limit: int = 0) -> list[tuple[bytes, bytes]]:
        return self._stored(raw, prefix).prefix(raw, prefix, limit)

    def scan(
        self, raw: RawView, partition: int, after: bytes = b"", keys: KeyRange | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        layout = self._stored(raw, after) if after else self._plain
        wire_key = b""
        for record_key, value in layout.scan(raw, partition, after, keys):
            if not wire_key or not record_key.startswith(wire_key):
                _, end = self._keys.leading(record_key)
                wire_key = record_key[:end]
                self._stored(raw, wire_key)
            yield record_key, value

    def changed_keys(self, changes: Overlay, partition: int) -> Iterator[bytes]:
        return self._plain.changed_keys(changes, partition)

    def _stored(self, raw: RawReads, record_key: bytes) -> StateLayout:
        """The layout for the signs under which the key of a store key is stored."""
        columns, end = self._keys.leading(record_key)
        zeros = zeros_in(columns)
        if not zeros:
            return self._plain
        if zeros > _MOST_ZEROS:
            raise InvalidRequestError(
                f"{self.definition.queryable_name}: the key {columns!r} has {zeros} zeros, whose "
                f"signs Spark keeps here; keys with at most {_MOST_ZEROS} can be read",
                reason=Reason.UNSUPPORTED,
            )
        wire_key = record_key[:end]
        found = [
            layout
            for signs in range(1 << zeros)
            for layout in [self._of_signs(signs)]
            if layout.prefix(raw, wire_key + VOID_NAMESPACE, 1)
        ]
        if len(found) > 1:
            name = self.definition.queryable_name or self.definition.operator
            raise several_keys(name, "key", columns)
        return found[0] if found else self._plain

    def _of_signs(self, signs: int) -> StateLayout:
        layout = self._signed.get(signs)
        if layout is None:
            layout = self._signed[signs] = self._layout_of(self._keys.with_signs(signs))
        return layout


def several_keys(name: str, what: str, columns: Any) -> InvalidRequestError:
    """The refusal of a key or entry that may be several ones for Spark."""
    return InvalidRequestError(
        f"{name}: the {what} {columns!r} is several ones for Spark, which keeps 0.0 and -0.0 apart "
        "here; look-ups cannot tell them apart. Read them with Spark's `statestore` reader, or add "
        "0.0 to the column before it becomes a key",
        reason=Reason.UNSUPPORTED,
    )


def _has_floats(info: TypeInfo) -> bool:
    if info.kind == Kind.LIST:
        return _has_floats(given(info.element))
    return info.kind in (Kind.FLOAT, Kind.DOUBLE) or any(
        _has_floats(each.type) for each in info.fields
    )


def zeros_in(value: Any) -> int:
    """The number of zeros in columns that have signs."""
    if isinstance(value, float):
        return value == 0
    return sum(map(zeros_in, value)) if isinstance(value, tuple | list) else 0
