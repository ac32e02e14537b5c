"""Columnar state of a task: fetched and written as Arrow columns, without Python values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from queryable_state.streaming.runtime.columns.value_columns import (
    decode_column,
    decode_fields,
    decode_rows,
    encode_column,
    encode_rows,
)
from queryable_state.streaming.runtime.states.cached_state import (
    CachedState,
    point_values,
    value_codec,
)
from queryable_state.streaming.runtime.states.expiring.expiry import Expiry, Life
from queryable_state.wire.errors import SerializationError
from queryable_state.wire.schema.types import Kind
from queryable_state.wire.values.value_codec import without_timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from queryable_state.internal.v1.backend_pb2 import StateValues
    from queryable_state.streaming.descriptors import StateDescriptor
    from queryable_state.streaming.runtime.states.cached_state import StateContext
    from queryable_state.streaming.runtime.states.key_table import Slots
    from queryable_state.v1.registration_pb2 import StateRegistration
    from queryable_state.wire.changes import ChangeBlockBuilder


class ColumnState(CachedState):
    """One value per key: one column for a scalar, one column per field for a ROW."""

    def __init__(self, descriptor: StateDescriptor) -> None:
        super().__init__(descriptor)
        self.ended: list[bytes] = []
        """Prefixes of the windows whose values are removed, unless they are written again."""
        self._slots: list[int] = []
        self._values: list[bytes] = []
        self._columns: list[pa.Array] = []
        self._written: Slots | None = None

    def bind(self, registration: StateRegistration, context: StateContext) -> None:
        super().bind(registration, context)
        declared = self.descriptor.value_type
        assert declared is not None
        self._codec = value_codec(registration.value_types, declared, None)
        self._is_row = declared.kind == Kind.ROW
        self._expiry = Expiry.of(registration, context.batch_timestamp_ms)

    def grow(self, slots: int) -> None:
        """Does nothing: `put` sets whole columns."""

    def is_unseen(self, slot: int) -> bool:
        return True

    def take(self, slots: Sequence[int], values: StateValues) -> None:
        expiry = self._expiry
        for slot, value in point_values(slots, values):
            if value is not None and (expiry is None or expiry.life_of(value) != Life.GONE):
                self._slots.append(slot)
                self._values.append(value if expiry is None else without_timestamp(value))

    def fetched_columns(self) -> tuple[Slots, list[pa.Array]]:
        """Slots with a value that were fetched since the last call, and the columns of their
        values."""
        slots, values = self._slots, self._values
        self._slots, self._values = [], []
        columns = (
            decode_rows(values, self._codec)
            if self._is_row
            else [decode_column(values, self._codec)]
        )
        return np.array(slots, dtype=np.int64), columns

    def fetched_fields(self, positions: Sequence[int]) -> tuple[Slots, list[pa.Array]]:
        """All fetched slots with a value, and the columns of some fields of their ROW values."""
        columns = decode_fields(self._values, self._codec, positions)
        return np.array(self._slots, dtype=np.int64), columns

    def put(self, columns: list[pa.Array], slots: Slots | None = None) -> None:
        """Sets the values of the slots (None: all). A null scalar removes the value."""
        self._columns = columns
        self._written = np.arange(len(columns[0])) if slots is None else slots

    def write(self, changes: ChangeBlockBuilder) -> None:
        if self.ended:
            changes.delete_all(self.ended)
        if self._written is None:
            return
        columns, written = self._columns, self._written
        if not self._is_row and columns[0].null_count:
            present = columns[0].is_valid()
            mask = present.to_numpy(zero_copy_only=False)
            for slot in written[~mask].tolist():
                changes.delete(self.prefix(slot))
            columns, written = [columns[0].filter(present)], written[mask]
        slots = written.tolist()
        values = self._encoded_columns(slots, columns)
        changes.put_all(self.table.prefixes(slots), values)

    def _encoded_columns(self, slots: list[int], columns: list[pa.Array]) -> list[bytes]:
        try:
            values = (
                encode_rows(columns, self._codec)
                if self._is_row
                else encode_column(columns[0], self._codec)
            )
        except SerializationError as problem:
            raise SerializationError(
                f"{self._context.where}: state {self.descriptor.name!r}: a value cannot be written "
                f"as {self._codec.type_info}: {problem}"
            ) from problem
        if self._expiry is not None:
            values = list(map(self._expiry.updater(self._codec.header), values))
        limit = self._context.settings.value_bytes
        if max(map(len, values), default=0) > limit:
            for slot, value in zip(slots, values, strict=True):
                self._check_size(slot, len(value), self._codec.type_info)
        return values
