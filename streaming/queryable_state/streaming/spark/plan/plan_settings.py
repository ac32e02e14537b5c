"""Spark settings that speed up the batches of a job's query."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from queryable_state.streaming.runtime.columns.value_columns import DTYPES
from queryable_state.wire.schema.types import Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql.streaming.query import StreamingQuery

    from queryable_state.streaming.graph.nodes import OperatorInput, OperatorNode

_log = logging.getLogger("queryable_state.streaming")

# Adaptive replanning after the shuffle cannot gain anything: the partitions of a keyed operator are
# fixed. Spark disables it for its own stateful operators too.
_REPLANNING = "spark.sql.adaptive.streaming.stateless.enabled"
# With a limit Spark computes the size of the Arrow batch after each row, a quarter of the time of a
# task with narrow rows. This value means no limit.
_BYTES_AT_ONCE = "spark.sql.execution.arrow.maxBytesPerBatch"
_NO_LIMIT = str((1 << 31) - 1)


def set_plan(query: StreamingQuery, operators: Iterable[OperatorNode]) -> None:
    """Sets these settings on a started query, unless its user has set them.

    The user's session is not changed. The settings affect only the duration of a batch, so it does
    not matter if the first batch is planned without them.
    """
    settings = {_REPLANNING: "false"}
    if all(_is_narrow(node, number) for node in operators for number in range(len(node.inputs))):
        settings[_BYTES_AT_ONCE] = _NO_LIMIT
    execution: Any = query._jsq.streamingQuery()
    try:
        own = execution.sparkSessionForStream().conf()
        for name, value in settings.items():
            if not own.contains(name):
                own.set(name, value)
    except Py4JError as problem:
        _log.info("query %s keeps Spark's settings: %s", query.name, problem)


def _is_narrow(node: OperatorNode, number: int) -> bool:
    """True if all columns of an input have a fixed width, except key columns, which have their own
    limit."""
    read: OperatorInput = node.inputs[number]
    keys = () if read.keys is None else read.keys.columns
    info = read.value_type
    types = [field.type for field in info.fields] if info.kind == Kind.ROW else [info]
    shuffled = {
        **{
            name: read.upstream.columns.type_of_stored(name, "order_by")
            for name in node.order_columns(number)
        },
        **dict(zip(read.value_columns, types, strict=True)),
    }
    return all(name in keys or _has_fixed_width(of) for name, of in shuffled.items())


def _has_fixed_width(info: TypeInfo) -> bool:
    return info.kind in DTYPES or info.kind in (Kind.DECIMAL, Kind.BIG_INT, Kind.TIME)
