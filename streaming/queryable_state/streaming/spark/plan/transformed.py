"""Functions of DataFrames as nodes of a graph, checked on an empty DataFrame."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame

from queryable_state.streaming.graph.elements import WATERMARK, Columns
from queryable_state.streaming.graph.nodes import FrameNode
from queryable_state.streaming.spark.types import schema
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.types import Field

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from queryable_state.streaming.graph.nodes import StreamNode

# Nodes of a plan whose result for one batch depends on other batches, or on rows beyond the batch.
_ACROSS_BATCHES = (
    "Aggregate",
    "Deduplicate",
    "DeduplicateWithinWatermark",
    "Distinct",
    "FlatMapGroupsInPandasWithState",
    "FlatMapGroupsWithState",
    "GlobalLimit",
    "LocalLimit",
    "Offset",
    "Sort",
    "Tail",
    "TransformWithState",
    "TransformWithStateInPySpark",
    "Window",
)


def transformed_node(
    session: SparkSession,
    node: StreamNode,
    function: Callable[[DataFrame], DataFrame],
    *,
    keeps_columns: bool = False,
) -> FrameNode:
    """The stream with a function of DataFrames applied.

    The event-time column stays one if the function keeps it. The internal one stays if
    `keeps_columns`: the function keeps all columns, whatever they are.

    Raises InvalidRequestError if the function does not return a DataFrame of the stream's rows, or
    needs rows of other batches.
    """
    names = node.columns.names
    fields = [Field(name, node.columns.type_of(name, "transform")) for name in names]
    empty = session.createDataFrame([], _marked(schema(fields), node.columns))
    made = function(empty)
    if not isinstance(made, DataFrame):
        raise InvalidRequestError(
            f"transform takes a function that returns a DataFrame; this one returned {made!r}"
        )
    found = _above(made._jdf.queryExecution().analyzed(), _ids(empty._jdf))
    if found is None:
        raise InvalidRequestError(
            "transform takes a function of the DataFrame it is given; this one returned another "
            "DataFrame"
        )
    across = [name for name in found if name in _ACROSS_BATCHES]
    if across or made.isStreaming:
        what = across[0] if across else "a join with a stream"
        raise InvalidRequestError(
            f"transform: the function needs rows of other batches ({what}), but it is applied to "
            "each batch by itself: use a stateful operator (key_by), connect(), or apply it to the "
            "DataFrame before from_dataframe()"
        )
    columns = Columns.of_schema(made.schema)
    if keeps_columns and node.columns.has_internal_time:
        columns = columns.with_timestamps_of(node.columns)
    return FrameNode(upstreams=(node,), kind="transform", apply=function, columns=columns)


def _marked(made: StructType, columns: Columns) -> StructType:
    """The schema with its event-time column marked, as Spark marks that of a watermark."""
    for field in made.fields:
        if field.name == columns.event_time:
            field.metadata = {WATERMARK: 0}
    return made


def _above(plan: Any, leaf: set[int]) -> list[str] | None:
    """Names of the nodes from a plan down to the leaf with these columns; None: it is not there."""
    children = plan.children()
    if children.size() == 0:
        output = plan.output()
        ids = {output.apply(number).exprId().id() for number in range(output.size())}
        return [] if ids == leaf else None
    for number in range(children.size()):
        found = _above(children.apply(number), leaf)
        if found is not None:
            return [plan.nodeName(), *found]
    return None


def _ids(frame: Any) -> set[int]:
    output = frame.queryExecution().analyzed().output()
    return {output.apply(number).exprId().id() for number in range(output.size())}
