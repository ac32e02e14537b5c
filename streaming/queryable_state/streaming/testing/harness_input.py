"""One input of an operator under test: its rows from lists, as the batches that Spark passes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from xxhash import xxh64_intdigest

from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.ordering import order_columns
from queryable_state.streaming.runtime.columns.row_check import row_check
from queryable_state.streaming.runtime.operators.spec import columns_of
from queryable_state.streaming.runtime.states.input_spec import InputSpec
from queryable_state.wire.arrow.arrow_types import arrow_schema
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.keys.key_groups import KeyGroups, key_group_range, subtask_of
from queryable_state.wire.rows import row_values
from queryable_state.wire.schema.types import Field, Kind, TypeInfo, type_info

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from queryable_state.streaming.ordering import OrderBy

CHECK_COLUMN: Final = "__check"

_SIGN: Final = 1 << 63


@dataclass(frozen=True, kw_only=True)
class HarnessInput:
    """The columns of an input, and how the operator reads them."""

    what: str
    """The input in error texts."""
    fields: tuple[Field, ...]
    """All columns of the rows."""
    is_bare: bool
    """True if an element is the value of the only column, not a row."""
    spec: InputSpec

    @staticmethod
    def of(
        input_type: object,
        *,
        what: str,
        key_by: str | Sequence[str] = (),
        order_by: OrderBy | None = None,
        value_column: str | None = None,
        event_time: str = "",
        is_broadcast: bool = False,
        is_initial: bool = False,
        place: int = 0,
    ) -> HarnessInput:
        """The input with rows of this type; its elements are whole rows or a `value_column`."""
        value_type = type_info(input_type)
        fields = columns_of(value_type)
        names = [field.name for field in fields]
        keys = (key_by,) if isinstance(key_by, str) else tuple(key_by)
        named = (*keys, *filter(None, [value_column, event_time]))
        unknown = [name for name in named if name not in names]
        if unknown:
            raise InvalidRequestError(
                f"{what}: no column {', '.join(map(repr, unknown))}; the columns are "
                f"{', '.join(names)}"
            )
        spec = InputSpec(
            key_columns=keys,
            is_broadcast=is_broadcast,
            is_initial=is_initial,
            value_columns=tuple(name for name in names if value_column in (None, name)),
            value_type=next((f.type for f in fields if f.name == value_column), value_type),
            check_column=CHECK_COLUMN,
            event_time=event_time,
            order=order_columns(order_by, Columns({f.name: f.type for f in fields}), "order_by"),
            place=place,
        )
        return HarnessInput(
            what=what, fields=fields, is_bare=value_type.kind != Kind.ROW, spec=spec
        )

    def at(self, place: int) -> HarnessInput:
        """The same input as the stage's input with this index."""
        return replace(self, spec=replace(self.spec, place=place))

    @property
    def columns(self) -> tuple[Field, ...]:
        """The columns of a batch: those of the rows, and the row check."""
        return (*self.fields, Field(CHECK_COLUMN, TypeInfo(Kind.LONG)))

    @property
    def key_type(self) -> TypeInfo:
        """Type of the key: of its only column, or a ROW of its columns."""
        types = {field.name: field for field in self.fields}
        keys = tuple(types[name] for name in self.spec.key_columns)
        return keys[0].type if len(keys) == 1 else TypeInfo(Kind.ROW, fields=keys)

    def batches(
        self, rows: Iterable[Any], *, parallelism: int, max_parallelism: int, most_rows: int
    ) -> list[list[pa.RecordBatch]]:
        """The batches that each subtask reads: at most `most_rows` rows a batch, in their order.

        Rows with keys are distributed by key, rows without by their content. Every subtask reads
        the rows of a broadcast input.
        """
        groups = KeyGroups(self.key_type, max_parallelism) if self.spec.key_columns else None
        names = [field.name for field in self.fields]
        positions = [names.index(column) for column in self.spec.key_columns]
        by_subtask: list[list[tuple[Any, ...]]] = [[] for _ in range(parallelism)]
        for values in self._values(rows):
            row_hash = xxh64_intdigest(repr(values).encode()) - _SIGN
            if self.spec.is_broadcast:
                for subtask, own in enumerate(by_subtask):
                    first, _ = key_group_range(subtask, parallelism, max_parallelism)
                    own.append((*values, row_check(row_hash, first)))
                continue
            group = row_hash % max_parallelism
            if groups is not None:
                key = [values[position] for position in positions]
                # As in Spark a null does not change the hash; the operator refuses a null key.
                group = 0 if None in key else groups.of(key[0] if len(key) == 1 else key)
            subtask = subtask_of(group, parallelism, max_parallelism)
            by_subtask[subtask].append((*values, row_check(row_hash, group)))
        return [
            [
                self._batch(part[start : start + most_rows])
                for start in range(0, len(part), most_rows)
            ]
            for part in by_subtask
        ]

    def _values(self, rows: Iterable[Any]) -> Iterable[tuple[Any, ...]]:
        if self.is_bare:
            return ((row,) for row in rows)
        values_of = row_values(
            TypeInfo(Kind.ROW, fields=self.fields), f"row of {self.what}", InvalidRequestError
        )
        return (tuple(values_of(row)) for row in rows)

    def _batch(self, rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
        schema = arrow_schema(self.columns)
        columns = zip(*rows, strict=True)
        return pa.RecordBatch.from_arrays(
            [pa.array(column, type=of.type) for column, of in zip(columns, schema, strict=True)],
            schema=schema,
        )
