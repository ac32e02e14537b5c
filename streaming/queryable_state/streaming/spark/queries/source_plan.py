"""Sources and last aggregation of a stream, read from Spark's analyzed plan."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from queryable_state.streaming.graph.elements import WATERMARK, Columns
from queryable_state.streaming.graph.nodes import SourceNode
from queryable_state.streaming.graph.origin import Grouping, Origin
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

_log = logging.getLogger("queryable_state.streaming")

_ONE_TASK = ("socket",)
"""Sources that read each batch in one task."""
_WINDOW_BOUNDS = ("start", "end")


def source_node(dataframe: DataFrame) -> SourceNode:
    """The source node of a streaming DataFrame; InvalidRequestError if it is static."""
    if not dataframe.isStreaming:
        raise InvalidRequestError(
            "from_dataframe takes a streaming DataFrame (spark.readStream), but this one is "
            "static: it has no batches"
        )
    return SourceNode(
        dataframe=dataframe,
        columns=Columns.of_schema(dataframe.schema),
        origin=origin_of(dataframe),
        has_watermark=any(WATERMARK in (c.metadata or {}) for c in dataframe.schema.fields),
    )


def origin_of(dataframe: DataFrame) -> Origin:
    """The sources of a streaming DataFrame, and its last native aggregation.

    Only warnings depend on the result, so it is empty if the plan cannot be read.
    """
    try:
        return _origin(dataframe)
    except Py4JError as problem:
        _log.info("the sources of a DataFrame cannot be read from its plan: %s", problem)
        return Origin()


def _origin(dataframe: DataFrame) -> Origin:
    plan = dataframe._jdf.queryExecution().analyzed()
    names = [leaf.sourceName() for leaf in _items(plan.collectLeaves()) if _is_stream(leaf)]
    several = tuple(dict.fromkeys(name for name in names if name not in _ONE_TASK))
    return Origin(several, _grouping(plan, dataframe.columns))


def _is_stream(leaf: Any) -> bool:
    return bool(_class(leaf).startswith("StreamingRelation"))


def _grouping(plan: Any, names: list[str]) -> Grouping | None:
    """The groups of the topmost aggregation, if only unary operators are above it."""
    above, node = [], plan
    while _class(node) != "Aggregate":
        children = list(_items(node.children()))
        if len(children) != 1:
            return None
        above.append(node)
        (node,) = children
    expressions = list(_items(node.groupingExpressions()))
    # Attribute id to the index of the grouping expression whose value the attribute has.
    places = {item.exprId(): place for place, item in enumerate(expressions) if _is_attribute(item)}
    for item in _items(node.aggregateExpressions()):
        for place, expression in enumerate(expressions):
            if _class(item) == "Alias" and item.child().semanticEquals(expression):
                places[item.exprId()] = place
    for project in reversed(above):
        if _class(project) == "Project":
            for item in _items(project.projectList()):
                source = _attribute_of(item)
                if source is not None and source.exprId() in places:
                    places[item.exprId()] = places[source.exprId()]
    carriers = {
        name: places[attribute.exprId()]
        for name, attribute in zip(names, _items(plan.output()), strict=True)
        if attribute.exprId() in places
    }
    return Grouping(tuple(expression.sql() for expression in expressions), carriers)


def _attribute_of(item: Any) -> Any:
    """The source attribute of an alias; for a bound of a window, the window attribute."""
    if _class(item) != "Alias":
        return None
    child = item.child()
    if _class(child) == "GetStructField" and child.extractFieldName() in _WINDOW_BOUNDS:
        child = child.child()
    return child if _is_attribute(child) else None


def _is_attribute(expression: Any) -> bool:
    return _class(expression) == "AttributeReference"


def _class(node: Any) -> str:
    name: str = node.getClass().getSimpleName()
    return name


def _items(sequence: Any) -> Iterator[Any]:
    """The items of a Scala sequence."""
    return (sequence.apply(number) for number in range(sequence.size()))
