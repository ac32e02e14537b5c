"""Aggregates of columns, for the vectorised aggregations of windows."""

from __future__ import annotations

from dataclasses import dataclass

from queryable_state.streaming.runtime.aggregates.windowed_aggregate import ColumnFunction


@dataclass(frozen=True)
class ColumnAggregate:
    """An aggregate function and its column; see `WindowedStream.aggregate_columns`."""

    function: ColumnFunction
    column: str = ""
    """Empty: the rows are counted."""


def sum_of(column: str) -> ColumnAggregate:
    """The sum of a numeric column, in the column's type; a sum that overflows it is an error."""
    return ColumnAggregate(ColumnFunction.SUM, column)


def min_of(column: str) -> ColumnAggregate:
    """The smallest value of a column."""
    return ColumnAggregate(ColumnFunction.MIN, column)


def max_of(column: str) -> ColumnAggregate:
    """The greatest value of a column."""
    return ColumnAggregate(ColumnFunction.MAX, column)


def avg_of(column: str) -> ColumnAggregate:
    """The average of an integer or float column, a DOUBLE; its state is the sum and the count."""
    return ColumnAggregate(ColumnFunction.AVG, column)


def count_rows() -> ColumnAggregate:
    """The number of rows, a LONG."""
    return ColumnAggregate(ColumnFunction.COUNT)
