"""Row order: order columns, and sorting by them in columns.

Values are ordered as in Spark: null before every value, NaN after every number, -0.0 equal to 0.0,
strings and binaries by their bytes, rows field by field. `descending` is the exact reverse. Rows
that are equal in all columns keep their arrival order.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from queryable_state.streaming.runtime.columns.value_columns import DTYPES, numbers
from queryable_state.wire.schema.types import Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Numbers = npt.NDArray[np.int64]

_RANKED = frozenset((Kind.STRING, Kind.BINARY, Kind.DECIMAL, Kind.BIG_INT, Kind.TIME))
_SIGN_CLEARED = np.int64((1 << 63) - 1)


@dataclass(frozen=True, kw_only=True)
class OrderColumn:
    """One column of a row order."""

    column: str
    """A column of the stream."""
    path: tuple[str, ...] = ()
    """Field names from the column to a nested value; empty: the column itself."""
    type: TypeInfo
    """Type of the value; satisfies `has_order`."""
    descending: bool = False

    @property
    def name(self) -> str:
        """The dotted path, as the user writes it: `window.end`."""
        return ".".join((self.column, *self.path))

    def of(self, rows: pa.RecordBatch | pa.Table) -> pa.Array | pa.ChunkedArray:
        """The order values of rows of the stream."""
        return self.within(rows.column(self.column))

    def within(self, column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
        """The order values within the stream's column."""
        return pc.struct_field(column, list(self.path)) if self.path else column


def has_order(info: TypeInfo) -> bool:
    """True for types with an order: numbers, strings, binaries, times, and rows of these."""
    if info.kind in (Kind.ROW, Kind.TUPLE):
        return bool(info.fields) and all(has_order(field.type) for field in info.fields)
    return info.kind in DTYPES or info.kind in _RANKED


def order_codes(keys: Sequence[tuple[OrderColumn, pa.Array | pa.ChunkedArray]]) -> list[Numbers]:
    """Integer arrays whose lexicographic order is the row order, most significant first."""
    codes = []
    for order, column in keys:
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        ascending = _ascending(whole, order.type)
        codes += [~code for code in ascending] if order.descending else ascending
    return codes


def split_code(rows: pa.RecordBatch | pa.Table, split_column: str) -> list[Numbers]:
    """The input partition number of each row; an empty list without a split column."""
    if not split_column:
        return []
    code: Numbers = np.asarray(rows.column(split_column)).astype(np.int64)
    return [code]


def sorted_rows(codes: Sequence[Numbers]) -> Numbers | None:
    """Row indexes sorted by the codes; None if the rows are already in order."""
    rows: Numbers | None = None
    for code in reversed(codes):
        arranged = code if rows is None else code[rows]
        if (arranged[1:] >= arranged[:-1]).all():
            continue
        step: Numbers = np.argsort(arranged, kind="stable")
        rows = step if rows is None else rows[step]
    return rows


def last_rows(slots: Numbers, codes: Sequence[Numbers] = ()) -> tuple[Numbers, Numbers]:
    """The distinct slots, ascending, and the index of the last row of each slot by the codes."""
    size = int(slots.max()) + 1 if len(slots) else 0
    rows = np.arange(len(slots))
    for code in codes:
        of, values = slots[rows], code[rows]
        greatest = np.full(size, np.iinfo(np.int64).min)
        np.maximum.at(greatest, of, values)
        rows = rows[values == greatest[of]]
    last = np.full(size, -1, dtype=np.int64)
    # Of several assignments to one slot the last wins.
    last[slots[rows]] = rows
    distinct = np.flatnonzero(last >= 0)
    return distinct, last[distinct]


def _ascending(column: pa.Array, info: TypeInfo) -> list[Numbers]:
    codes = []
    if column.null_count:
        codes.append(column.is_valid().to_numpy(zero_copy_only=False).astype(np.int64))
    if info.kind in (Kind.ROW, Kind.TUPLE):
        for child, field in zip(column.flatten(), info.fields, strict=True):
            codes += _ascending(child, field.type)
    elif info.kind in _RANKED:
        ranks = pc.rank(column, sort_keys="ascending", tiebreaker="dense")
        codes.append(ranks.to_numpy(zero_copy_only=False).astype(np.int64))
    elif info.kind in (Kind.FLOAT, Kind.DOUBLE):
        codes.append(_of_floats(numbers(column, info).astype(np.float64)))
    else:
        codes.append(numbers(column, info).astype(np.int64, copy=False))
    return codes


def _of_floats(values: npt.NDArray[np.float64]) -> Numbers:
    """Integers with the same order as the floats."""
    # Adding 0 turns -0.0 into 0.0.
    bits: Numbers = np.where(np.isnan(values), np.nan, values + 0.0).view(np.int64)
    return np.where(bits < 0, bits ^ _SIGN_CLEARED, bits)
