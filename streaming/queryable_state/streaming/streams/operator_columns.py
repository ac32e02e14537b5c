"""Input columns of the operators on a keyed stream, checked against the types they need."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.streaming.descriptors import ValueStateDescriptor
from queryable_state.streaming.functions import ReducingStateDescriptor
from queryable_state.streaming.runtime.aggregates.aggregate import AggregateKind, FieldAggregate
from queryable_state.wire.errors import DescriptorMismatchError, InvalidRequestError
from queryable_state.wire.schema.types import Kind

if TYPE_CHECKING:
    from collections.abc import Collection

    from queryable_state.streaming.graph.elements import Columns
    from queryable_state.streaming.graph.keys import KeySelector
    from queryable_state.wire.schema.types import TypeInfo

_NUMBERS = frozenset(
    {Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL}
)
_ORDERED = _NUMBERS | {Kind.STRING, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ}


def aggregated_columns(
    kind: AggregateKind, names: tuple[str, ...], columns: Columns, keys: KeySelector
) -> tuple[FieldAggregate, ...]:
    """The columns of a `sum`, `min` or `max`; InvalidRequestError if one has no such aggregate."""
    if not names or len(set(names)) < len(names):
        raise InvalidRequestError(f"{kind}() takes the columns to aggregate, each once")
    fields = []
    for name in names:
        info = aggregated_column(kind, name, columns, f"{kind}()")
        if name in keys.columns:
            raise InvalidRequestError(f"{kind}({name!r}): the column is part of the key")
        fields.append(FieldAggregate(name, kind, info))
    return tuple(fields)


def aggregated_column(function: str, name: str, columns: Columns, purpose: str) -> TypeInfo:
    """The type of a column to aggregate; InvalidRequestError if it has no such aggregate."""
    info = columns.type_of(name, purpose)
    usable = _ORDERED if function in (AggregateKind.MIN, AggregateKind.MAX) else _NUMBERS
    if info.kind not in usable:
        raise InvalidRequestError(
            f"{function}({name!r}): a column of type {info} has no {function}"
        )
    return info


def stored_columns(
    purpose: str,
    descriptor: ValueStateDescriptor | ReducingStateDescriptor,
    columns: Columns,
    keys: KeySelector,
    order_columns: Collection[str],
) -> tuple[str, ...]:
    """The columns that a queryable sink stores in a state of this descriptor.

    A ROW type takes the columns it names; another type takes the only column that is neither a
    key nor an order column. Raises DescriptorMismatchError if the types differ.
    """
    if not isinstance(descriptor, ValueStateDescriptor | ReducingStateDescriptor):
        raise InvalidRequestError(
            f"{purpose} takes a ValueStateDescriptor or a ReducingStateDescriptor, "
            f"not {descriptor!r}"
        )
    wanted = descriptor.value_type
    if wanted is None or columns.bare:
        names = columns.names
    elif wanted.kind == Kind.ROW:
        names = tuple(field.name for field in wanted.fields)
    else:
        names = tuple(column for column in columns.names if column not in keys.columns)
        if len(names) > 1:
            names = tuple(column for column in names if column not in order_columns)
        if len(names) != 1:
            raise DescriptorMismatchError(
                f"{purpose}: the descriptor's type {wanted} is one value, but the stream has "
                f"{len(names)} columns beside the key and the order; select one, or describe a row"
            )
    found = (
        columns.element_type(names, purpose)
        if columns.bare or (wanted and wanted.kind == Kind.ROW)
        else columns.type_of(names[0], purpose)
    )
    if found != wanted:
        raise DescriptorMismatchError(
            f"{purpose}: the descriptor has type {wanted}, the stream's elements are {found}; "
            "declare that type or cast the columns"
        )
    return names
