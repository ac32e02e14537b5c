"""Nodes with several inputs: unions of streams, and initial state beside a stream."""

from __future__ import annotations

from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING

from queryable_state.streaming.functions import KeyedProcessFunction
from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.graph.keys import KeySelector
from queryable_state.streaming.graph.nodes import FrameNode, OperatorInput, SourceNode
from queryable_state.wire.errors import InvalidRequestError, KeyTypeError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from queryable_state.streaming.graph.nodes import StreamNode


def union_node(streams: Sequence[StreamNode]) -> FrameNode:
    """The union of streams; raises InvalidRequestError if their columns differ.

    Columns are matched by name, so their order may differ.
    """
    first = streams[0].columns
    for number, node in enumerate(streams[1:], start=2):
        columns = node.columns
        if columns.bare != first.bare or set(columns.names) != set(first.names):
            raise InvalidRequestError(
                f"union: stream 1 has the columns {', '.join(first.names)}, stream {number} has "
                f"{', '.join(columns.names)}: give them the same columns"
            )
        for name in first.names:
            one, other = (each.type_of(name, "union") for each in (first, columns))
            if one != other:
                raise InvalidRequestError(
                    f"union: column {name!r} is {one} in stream 1 and {other} in stream {number}: "
                    "cast one of them"
                )
    columns = first
    if any(node.columns.event_time != first.event_time for node in streams):
        columns = first.with_timestamps_of(*(node.columns for node in streams))
    same_class = all(node.columns.python_class is first.python_class for node in streams)
    return FrameNode(
        upstreams=tuple(streams),
        kind="union",
        apply=lambda *frames: reduce(lambda one, other: one.unionByName(other), frames),
        columns=replace(
            columns,
            python_class=first.python_class if same_class else None,
        ),
    )


def lookup(dataframe: DataFrame, on: str | list[str], how: str) -> Callable[[DataFrame], DataFrame]:
    """A function that joins a stream's DataFrame with a static one; InvalidRequestError if it
    cannot."""
    if dataframe.isStreaming or how not in ("inner", "left"):
        raise InvalidRequestError(
            f"lookup_join takes a static DataFrame and how='inner' or 'left', not {how!r} and "
            f"{dataframe!r}; connect() joins two streams"
        )
    return lambda stream: stream.join(dataframe, on, how)


def initial_input(
    dataframe: DataFrame, keys: KeySelector, function: KeyedProcessFunction
) -> OperatorInput:
    """The input with the initial state of an operator; raises InvalidRequestError if it cannot be
    read by key."""
    if dataframe.isStreaming:
        raise InvalidRequestError(
            "initial_state takes a static DataFrame, but this one is streaming: use connect()"
        )
    if type(function).handle_initial_state is KeyedProcessFunction.handle_initial_state:
        raise InvalidRequestError(
            f"{type(function).__name__} has no handle_initial_state, which initial_state needs: "
            "override handle_initial_state(self, value, ctx)"
        )
    if keys.is_computed:
        raise InvalidRequestError(
            "initial_state needs a stream that is keyed by columns, but a function computes its "
            "key: add the key as a column and key by it"
        )
    columns = Columns.of_schema(dataframe.schema)
    found = KeySelector.by_columns(keys.columns, columns)
    types = [field.type for field in keys.fields]
    if [field.type for field in found.fields] != types:
        raise KeyTypeError(
            f"initial_state has keys of type {found.key_type}, the stream has {keys.key_type}: "
            "cast the key columns of the DataFrame"
        )
    return OperatorInput(
        upstream=SourceNode(dataframe=dataframe, columns=columns, is_initial=True),
        keys=found,
        value_columns=columns.names,
        value_type=columns.element_type(columns.names, "initial_state"),
    )
