"""Row orders of `key_by` and `latest_by`, parsed from the user's notation."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Final, TypeAlias

from queryable_state.streaming.runtime.columns.event_time import EVENT_TIME_FIELD
from queryable_state.streaming.runtime.columns.row_order import OrderColumn, has_order
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.types import Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.streaming.graph.elements import Columns

    OrderBy: TypeAlias = str | tuple[str, str] | Sequence[str | tuple[str, str]]
    """A column name; `(name, "desc")`; a list of these."""


class DefaultOrder(Enum):
    """The order of a key's rows if the user gives none."""

    EVENT_TIME = "event time"
    """By the event time of the elements; if they have none, arrival order."""


EVENT_TIME: Final = DefaultOrder.EVENT_TIME


def order_columns(
    order_by: OrderBy | DefaultOrder | None, columns: Columns, purpose: str
) -> tuple[OrderColumn, ...]:
    """The columns of an order; raises InvalidRequestError if one is unknown or has no order."""
    if isinstance(order_by, DefaultOrder) and columns.has_internal_time:
        return (OrderColumn(column=EVENT_TIME_FIELD.name, type=EVENT_TIME_FIELD.type),)
    parsed = tuple(_order_column(item, columns, purpose) for item in _items(order_by, columns))
    names = [order.name for order in parsed]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise InvalidRequestError(f"{purpose}: column {repeated[0]!r} is named twice")
    return parsed


def _items(order_by: OrderBy | DefaultOrder | None, columns: Columns) -> list[object]:
    """One item per column of the order."""
    if order_by is None:
        return []
    if isinstance(order_by, DefaultOrder):
        return [] if columns.event_time is None else [columns.event_time]
    if isinstance(order_by, list | tuple) and order_by and _directed(order_by) is None:
        return list(order_by)
    return [order_by]


def _directed(item: object) -> tuple[str, str] | None:
    """The name and direction of a `(name, "asc" | "desc")` tuple; None for anything else."""
    match item:
        case (str(name), ("asc" | "desc") as direction) if isinstance(item, tuple):
            return name, str(direction)
    return None


def _order_column(item: object, columns: Columns, purpose: str) -> OrderColumn:
    name, direction = (item, "asc") if isinstance(item, str) else _directed(item) or ("", "")
    if not name:
        raise _not_an_order(item, purpose)
    column, path = _split_path(name, columns)
    info = columns.type_of(column, purpose)
    for field_name in path:
        fields = {field.name: field.type for field in info.fields}
        if info.kind != Kind.ROW or field_name not in fields:
            raise InvalidRequestError(
                f"{purpose}: column {column!r} has no field {field_name!r} ({name!r} was given); "
                f"it is {columns.type_of(column, purpose)}"
            )
        info = fields[field_name]
    if not has_order(info):
        raise InvalidRequestError(
            f"{purpose}: column {name!r} is {info}, which has no order: use a number, text, "
            "binary, boolean, date or timestamp column, or a row of these"
        )
    return OrderColumn(column=column, path=path, type=info, descending=direction == "desc")


def _split_path(name: str, columns: Columns) -> tuple[str, tuple[str, ...]]:
    """Column and field names of a dotted path; a column with that very name wins."""
    column, *path = name.split(".")
    if name in columns.names or column not in columns.names:
        return name, ()
    return column, tuple(path)


def _not_an_order(given: object, purpose: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"{purpose} takes a column name, (name, 'desc'), or a list of these, not {given!r}; use "
        "None for no order"
    )
