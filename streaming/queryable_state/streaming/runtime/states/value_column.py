"""Value state of a task whose values functions read and write as Arrow columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pyarrow as pa

from queryable_state.streaming.runtime.columns.fitted_columns import fitted_column, fitted_fields
from queryable_state.streaming.runtime.columns.row_parts import taken_rows
from queryable_state.streaming.runtime.columns.value_columns import decode_column, decode_rows
from queryable_state.streaming.runtime.states.column_state import ColumnState
from queryable_state.streaming.vectorised.functions import ValueColumn
from queryable_state.wire.arrow.arrow_types import arrow_type
from queryable_state.wire.errors import InvalidRequestError, JobError, Reason, SerializationError
from queryable_state.wire.schema.types import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from queryable_state.internal.v1.backend_pb2 import StateValues
    from queryable_state.streaming.descriptors import StateDescriptor
    from queryable_state.streaming.runtime.states.cached_state import StateContext
    from queryable_state.streaming.runtime.states.key_table import Slots
    from queryable_state.v1.registration_pb2 import StateRegistration
    from queryable_state.wire.changes import ChangeBlockBuilder
    from queryable_state.wire.schema.types import TypeInfo

_NO_VALUE = -1
_SPARE_ROWS = 65_536


class CachedValueColumn(ColumnState, ValueColumn):
    """Fetched and written values of a task, as parts of columns.

    `_row_of` has the row of each slot's value in the concatenated parts. A write appends a part;
    replaced rows stay until they outnumber the slots.
    """

    def __init__(self, descriptor: StateDescriptor) -> None:
        super().__init__(descriptor)
        self._row_of: Slots = np.empty(0, dtype=np.int64)
        self._dirty: npt.NDArray[np.bool_] = np.empty(0, dtype=np.bool_)
        self._seen = bytearray()
        self._parts: list[pa.RecordBatch] = []
        self._rows = 0
        self._chunk_slots: Slots | None = None

    def bind(self, registration: StateRegistration, context: StateContext) -> None:
        super().bind(registration, context)
        self._type = self._codec.type_info
        self._has_other_forms = _has_other_forms(self._type)

    def grow(self, slots: int) -> None:
        more = slots - len(self._row_of)
        if more > 0:
            self._row_of = np.concatenate((self._row_of, np.full(more, _NO_VALUE)))
            self._dirty = np.concatenate((self._dirty, np.zeros(more, dtype=np.bool_)))
            self._seen.extend(bytes(more))

    def is_unseen(self, slot: int) -> bool:
        return not self._seen[slot]

    def take(self, slots: Sequence[int], values: StateValues) -> None:
        super().take(slots, values)
        for slot in slots:
            self._seen[slot] = True

    def enter(self) -> None:
        super().enter()
        self._chunk_slots = np.array(self.table.chunk_slots, dtype=np.int64)

    def leave(self) -> None:
        super().leave()
        self._chunk_slots = None

    def values(self) -> pa.Array:
        slots = self._slots_of_chunk()
        self._load_chunk()
        self._keep_fetched()
        rows = self._row_of[slots]
        present = rows != _NO_VALUE
        info = arrow_type(self._type)
        if not present.any():
            return pa.nulls(len(slots), info)
        columns, missing = self._columns_at(rows[present]), None
        if not present.all():
            missing = pa.array(~present)
            places = pa.array(np.cumsum(present) - 1, mask=~present)
            columns = [column.take(places) for column in columns]
        if not self._is_row:
            return columns[0]
        return pa.StructArray.from_arrays(columns, fields=list(info), mask=missing)

    def update(self, values: Any, where: Any = None) -> None:
        slots = self._selected(where)
        columns, present = self._checked(values, len(slots))
        self._write(slots)
        self._row_of[slots] = _NO_VALUE
        self._keep(slots if present is None else slots[present], columns)

    def clear(self, where: Any = None) -> None:
        slots = self._selected(where)
        self._write(slots)
        self._row_of[slots] = _NO_VALUE

    def write(self, changes: ChangeBlockBuilder) -> None:
        slots = np.flatnonzero(self._dirty)
        rows = self._row_of[slots]
        present = rows != _NO_VALUE
        for slot in slots[~present].tolist():
            changes.delete(self.prefix(slot))
        if present.any():
            written = slots[present].tolist()
            values = self._encoded_columns(written, self._columns_at(rows[present]))
            changes.put_all(self.table.prefixes(written), values)

    def _write(self, slots: Slots) -> None:
        # A write takes precedence: values that are already fetched must not replace it later.
        self._keep_fetched()
        self._dirty[slots] = True
        for slot in slots.tolist():
            self._seen[slot] = True

    def _keep_fetched(self) -> None:
        if self._slots:
            self._keep(*self.fetched_columns())

    def _keep(self, slots: Slots, columns: list[pa.Array]) -> None:
        """Appends the values of these slots."""
        if not len(slots):
            return
        self._row_of[slots] = np.arange(self._rows, self._rows + len(slots))
        self._rows += len(slots)
        names = [f"f{position}" for position in range(len(columns))]
        self._parts.append(pa.RecordBatch.from_arrays(columns, names=names))
        if self._rows > 2 * len(self._row_of) + _SPARE_ROWS:
            live = np.flatnonzero(self._row_of != _NO_VALUE)
            kept = self._columns_at(self._row_of[live])
            self._parts = [pa.RecordBatch.from_arrays(kept, names=names)]
            self._row_of[live] = np.arange(len(live))
            self._rows = len(live)

    def _columns_at(self, rows: Slots) -> list[pa.Array]:
        firsts = np.cumsum([0, *(part.num_rows for part in self._parts[:-1])])
        found = taken_rows(self._parts, firsts, rows)
        whole = pa.Table.from_batches(found).combine_chunks() if len(found) > 1 else found[0]
        return [_whole(column) for column in whole.columns]

    def _checked(
        self, values: Any, count: int
    ) -> tuple[list[pa.Array], npt.NDArray[np.bool_] | None]:
        """The columns of the values that are not null, and the mask of these; None: all are.

        The values are in the form in which they are read back.
        """
        try:
            if len(values) != count:
                raise SerializationError(f"{len(values)} values were given for {count} keys")
            columns, present = self._fitted(values)
        except (SerializationError, TypeError, pa.ArrowException) as problem:
            raise SerializationError(
                f"{self._context.where}: update of state {self.descriptor.name!r}, which is "
                f"{self._type}: {problem}"
            ) from problem
        if self._has_other_forms and columns and len(columns[0]):
            data = self._encoded_columns(self._any_slots(len(columns[0])), columns)
            columns = (
                decode_rows(data, self._codec)
                if self._is_row
                else [decode_column(data, self._codec)]
            )
        return columns, present

    def _fitted(self, values: Any) -> tuple[list[pa.Array], npt.NDArray[np.bool_] | None]:
        if self._is_row and isinstance(values, pa.Table | pa.RecordBatch):
            return fitted_fields(values, self._type), None
        column = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
        column = column if isinstance(column, pa.Array) else pa.array(column)
        present = None
        if column.null_count:
            valid = column.is_valid()
            present = valid.to_numpy(zero_copy_only=False)
            column = column.filter(valid)
        if not self._is_row:
            return [fitted_column(column, self._type)], present
        if not len(column):
            return [pa.nulls(0, arrow_type(field.type)) for field in self._type.fields], present
        if not isinstance(column, pa.StructArray):
            raise SerializationError(f"Arrow type {column.type} is not a struct")
        return fitted_fields(column, self._type), present

    def _selected(self, where: Any) -> Slots:
        """The selected slots of the chunk."""
        slots = self._slots_of_chunk()
        if where is None:
            return slots
        if isinstance(where, pa.Array | pa.ChunkedArray) and pa.types.is_boolean(where.type):
            where = where.fill_null(False)
        chosen, keys = np.asarray(where), len(slots)
        if chosen.dtype == np.bool_:
            if len(chosen) == keys:
                return cast("Slots", slots[chosen])
            raise self._selection_refused(f"a mask of {len(chosen)} values for {keys} keys")
        if not len(chosen):
            return slots[:0]
        if chosen.dtype.kind not in "iu":
            raise self._selection_refused(f"a selection of type {chosen.dtype}")
        if chosen.min() < 0 or chosen.max() >= keys:
            outside = chosen.min() if chosen.min() < 0 else chosen.max()
            raise self._selection_refused(f"position {outside} of {keys} keys")
        if len(np.unique(chosen)) < len(chosen):
            raise self._selection_refused("a position twice")
        return cast("Slots", slots[chosen])

    def _selection_refused(self, what: str) -> InvalidRequestError:
        return InvalidRequestError(
            f"{self._context.where}: state {self.descriptor.name!r} was called with {what}: "
            "`where` is a mask with one boolean per key, or distinct positions of keys"
        )

    def _slots_of_chunk(self) -> Slots:
        if self._chunk_slots is None:
            raise JobError(
                f"state {self.descriptor.name!r} is used outside process_batch: read and write "
                "states only there",
                reason=Reason.INVALID_REQUEST,
            )
        return self._chunk_slots

    def _any_slots(self, count: int) -> list[int]:
        assert self._chunk_slots is not None
        slots: list[int] = self._chunk_slots[:count].tolist()
        return slots


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _has_other_forms(info: TypeInfo) -> bool:
    """True if Arrow values with equal stored bytes may differ: maps with a key twice, pickles."""
    inner = [info.element, info.key, *(field.type for field in info.fields)]
    return info.kind in (Kind.MAP, Kind.PICKLED) or any(
        _has_other_forms(each) for each in inner if each is not None
    )
