"""Specification of one input of a stateful operator, as its tasks read it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from queryable_state.streaming.runtime.columns.row_order import OrderColumn
    from queryable_state.wire.schema.types import TypeInfo


@dataclass(frozen=True, kw_only=True)
class InputSpec:
    """Columns of the rows of one input."""

    key_columns: tuple[str, ...]
    """Columns of the key. One column is a bare key, several make a tuple. Empty: the elements have
    no key."""
    is_broadcast: bool = False
    """True if every subtask reads every element."""
    is_initial: bool = False
    """True if the elements are initial state, which only the first batch of a job has."""
    value_columns: tuple[str, ...]
    """Columns of the element, in order. A column may be a key column too."""
    value_type: TypeInfo
    """A ROW with one field per value column; else the type of the only value column."""
    check_column: str
    """Column (long) with the row check, see `row_check`; computed by the JVM."""
    order: tuple[OrderColumn, ...] = ()
    """Order of a batch's rows before the operator reads them; empty: arrival order."""
    split_column: str = ""
    """Column (int) with the number of a row's input partition, the tie-break between rows that are
    equal in `order`; empty: no tie-break."""
    event_time: str = ""
    """Column with the elements' timestamps: a value column, or the internal event-time column;
    empty: they have none. `timestamps` reads it."""
    place: int = 0
    """Index of the stage's input that has these rows."""
