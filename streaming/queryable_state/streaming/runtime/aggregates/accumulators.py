"""Accumulators of sums, minima and maxima of one column, by key slot."""

from __future__ import annotations

from abc import ABC, abstractmethod
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from queryable_state.streaming.runtime.aggregates.aggregate import AggregateKind, FieldAggregate
from queryable_state.streaming.runtime.columns.value_columns import (
    DTYPES,
    column_of_numbers,
    numbers,
)
from queryable_state.wire.arrow.arrow_types import arrow_type
from queryable_state.wire.errors import SerializationError
from queryable_state.wire.schema.types import Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from queryable_state.streaming.runtime.states.key_table import Slots
    from queryable_state.wire.schema.types import TypeInfo

_INTEGER_BITS = {Kind.BYTE: 8, Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}
_FLOATS = (Kind.FLOAT, Kind.DOUBLE)
_LONG_MAX = (1 << 63) - 1
# Wide enough for sums of decimals of 38 digits: adding within it never rounds.
_EXACT = Context(prec=80)


class Accumulator(ABC):
    """One aggregated column. Nulls are ignored; a slot with only nulls stays null.

    `overflow` creates the error for a slot whose sum overflows its type.
    """

    def __init__(self, aggregate: FieldAggregate, overflow: Callable[[int], Exception]) -> None:
        self._type = aggregate.type
        self._kind = aggregate.kind
        self._overflow = overflow

    @abstractmethod
    def grow(self, slots: int) -> None:
        """Makes room for this number of slots."""

    @abstractmethod
    def add(self, slots: Slots, column: pa.Array) -> None:
        """Adds a column of the aggregate's type; `slots` has the slot of each row."""

    @abstractmethod
    def merge(self, slots: Slots, other: Self, rows: Slots) -> None:
        """Adds the aggregates of some slots of another accumulator of the same aggregate.

        `rows` are these slots; `slots` has, for each, the slot to which it is added.
        """

    @abstractmethod
    def column(self) -> pa.Array:
        """The aggregates of all slots."""


def overflow_error(aggregated: str, info: TypeInfo) -> SerializationError:
    """The error of an aggregate beyond its type; `aggregated` names the aggregate and its key."""
    wider = "double"
    if info.kind is Kind.DECIMAL:
        wider = "a decimal with more digits before the point, or to double"
    elif info.kind in _INTEGER_BITS:
        wider = "decimal or double" if info.kind is Kind.LONG else "bigint, decimal or double"
    return SerializationError(f"{aggregated} overflows {info}: cast the column to {wider} before")


def accumulator(aggregate: FieldAggregate, overflow: Callable[[int], Exception]) -> Accumulator:
    """The accumulator of an aggregate."""
    if aggregate.type.kind in DTYPES:
        return _Numbers(aggregate, overflow)
    return _Objects(aggregate, overflow)


class _Numbers(Accumulator):
    """Types of fixed width, in numpy arrays."""

    def __init__(self, aggregate: FieldAggregate, overflow: Callable[[int], Exception]) -> None:
        super().__init__(aggregate, overflow)
        is_float = self._type.kind in _FLOATS
        # Each addition rounds to the column's type, as storing between batches does.
        self._dtype: type[Any] = np.float64 if is_float else np.int64
        if self._type.kind == Kind.FLOAT:
            self._dtype = np.float32
        # The identity of the aggregate. As in Spark NaN is the largest number: the maximum if any
        # value is NaN, the minimum only if all are.
        self._initial: float = 0
        if self._kind == AggregateKind.MIN:
            self._initial = float("nan") if is_float else _LONG_MAX
        elif self._kind == AggregateKind.MAX:
            self._initial = float("-inf") if is_float else -_LONG_MAX - 1
        self._values: npt.NDArray[Any] = np.empty(0, dtype=self._dtype)
        self._present: npt.NDArray[np.bool_] = np.empty(0, dtype=np.bool_)

    def grow(self, slots: int) -> None:
        more = slots - len(self._values)
        if more > 0:
            room = np.full(more, self._initial, dtype=self._dtype)
            self._values = np.concatenate((self._values, room))
            self._present = np.concatenate((self._present, np.zeros(more, dtype=np.bool_)))

    def add(self, slots: Slots, column: pa.Array) -> None:
        if column.null_count:
            present = column.is_valid()
            slots = slots[present.to_numpy(zero_copy_only=False)]
            column = column.filter(present)
        self._add(slots, numbers(column, self._type).astype(self._dtype))

    def merge(self, slots: Slots, other: Self, rows: Slots) -> None:
        present = other._present[rows]
        self._add(slots[present], other._values[rows[present]])

    def _add(self, slots: Slots, values: npt.NDArray[Any]) -> None:
        if not len(slots):
            return
        self._present[slots] = True
        match self._kind:
            case AggregateKind.MIN:
                np.fmin.at(self._values, slots, values)
            case AggregateKind.MAX:
                with np.errstate(invalid="ignore"):
                    np.maximum.at(self._values, slots, values)
            case AggregateKind.SUM if self._type.kind in _FLOATS:
                # As in Spark a sum may become infinite or NaN.
                with np.errstate(over="ignore", invalid="ignore"):
                    np.add.at(self._values, slots, values)
            case AggregateKind.SUM:
                self._add_integers(slots, values)

    def _add_integers(self, slots: Slots, values: npt.NDArray[Any]) -> None:
        largest = max(abs(int(values.min())), abs(int(values.max())))
        reached = max(abs(int(self._values.min())), abs(int(self._values.max())))
        if reached + largest * len(values) <= _LONG_MAX:
            np.add.at(self._values, slots, values)
            return
        # An intermediate sum may overflow although the total does not: add in Python integers.
        sums: dict[int, int] = {}
        for slot, value in zip(slots.tolist(), values.tolist(), strict=True):
            sums[slot] = sums.get(slot, 0) + value
        for slot, value in sums.items():
            total = int(self._values[slot]) + value
            if not -_LONG_MAX - 1 <= total <= _LONG_MAX:
                raise self._overflow(slot)
            self._values[slot] = total

    def column(self) -> pa.Array:
        bits = _INTEGER_BITS.get(self._type.kind)
        if bits is not None and self._kind == AggregateKind.SUM:
            bound = 1 << (bits - 1)
            outside = (self._values < -bound) | (self._values > bound - 1)
            if outside.any():
                raise self._overflow(int(np.flatnonzero(outside)[0]))
        values = np.where(self._present, self._values, 0).astype(DTYPES[self._type.kind])
        return column_of_numbers(values, self._type, ~self._present)


class _Objects(Accumulator):
    """Strings, bytes and decimals, as Python objects."""

    def __init__(self, aggregate: FieldAggregate, overflow: Callable[[int], Exception]) -> None:
        super().__init__(aggregate, overflow)
        self._values: list[Any] = []

    def grow(self, slots: int) -> None:
        self._values.extend([None] * (slots - len(self._values)))

    def add(self, slots: Slots, column: pa.Array) -> None:
        self._add(slots, column.to_pylist())

    def merge(self, slots: Slots, other: Self, rows: Slots) -> None:
        self._add(slots, [other._values[row] for row in rows.tolist()])

    def _add(self, slots: Slots, added: list[Any]) -> None:
        combine = _COMBINE[self._kind]
        values = self._values
        for slot, value in zip(slots.tolist(), added, strict=True):
            if value is not None:
                current = values[slot]
                values[slot] = value if current is None else combine(current, value)

    def column(self) -> pa.Array:
        if self._type.kind == Kind.DECIMAL and self._kind == AggregateKind.SUM:
            bound = Decimal(10) ** (self._type.precision - self._type.scale)
            for slot, value in enumerate(self._values):
                if value is not None and abs(value) >= bound:
                    raise self._overflow(slot)
        try:
            return pa.array(self._values, type=arrow_type(self._type))
        except pa.ArrowException as problem:
            raise SerializationError(
                f"an aggregate is not of type {self._type}: {problem}"
            ) from problem


def _smaller(left: Any, right: Any) -> Any:
    return right if right < left else left


def _larger(left: Any, right: Any) -> Any:
    return right if right > left else left


def _sum(left: Decimal, right: Decimal) -> Decimal:
    return _EXACT.add(left, right)


_COMBINE: dict[AggregateKind, Callable[[Any, Any], Any]] = {
    AggregateKind.SUM: _sum,
    AggregateKind.MIN: _smaller,
    AggregateKind.MAX: _larger,
}
