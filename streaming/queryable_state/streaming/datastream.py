"""A stream of elements, and what can be done with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from queryable_state.streaming.jobs.graph import (
    OperatorNode,
    SinkNode,
    StreamNode,
    check_name,
)
from queryable_state.streaming.keyed_stream import KeyedStream
from queryable_state.streaming.keys import KeySelector
from queryable_state.streaming.ordering import EVENT_TIME, order_columns
from queryable_state.streaming.runtime.operators.operators import (
    with_dropped_fields,
    with_renamed_fields,
)
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.types import type_info

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame

    from queryable_state.streaming.environment import StreamExecutionEnvironment
    from queryable_state.streaming.ordering import DefaultOrder, OrderBy


class DataStream:
    """A stream; made by an environment or by an operator on another stream."""

    def __init__(self, environment: StreamExecutionEnvironment, node: StreamNode) -> None:
        self._environment = environment
        self._node = node

    def key_by(
        self,
        *keys: Any,
        key_type: object = None,
        order_by: OrderBy | DefaultOrder | None = EVENT_TIME,
    ) -> KeyedStream:
        """Partitions the stream by key.

        `key_by("a", "b")` takes columns: one is a bare key, several make a row.
        `key_by(function, key_type)` takes what a Python function, of an element,
        returns; it must return the same for the same element.

        `order_by` is the order of a key's rows within each batch: a column, `("ts", "desc")`, or a
        list of these; `window.end` is a field of a column. Null comes before every value and NaN
        after every number, as in Spark; `desc` is the reverse. Rows equal in all columns keep the
        order of their input partition, and those of different partitions come by its number: a
        batch that runs again has the same order. Rows of a later batch come later, however old.

        Without `order_by` the order is the event-time column of the DataFrame's watermark where
        there is one. Otherwise, or with `order_by=None`, rows come as they arrive: **rows of one
        Kafka partition or one split of a file in their order, those of different ones in any**.
        `sum`, `min` and `max` need no order and take none.
        """
        columns = self._node.columns
        if keys and all(isinstance(key, str) for key in keys) and key_type is None:
            selector = KeySelector.by_columns(keys, columns)
        elif len(keys) in (1, 2) and callable(keys[0]):
            declared = keys[1] if len(keys) == 2 else key_type
            if declared is None:
                raise InvalidRequestError(
                    "key_by(function) needs the key's type: key_by(function, Types.STRING())"
                )
            selector = KeySelector.by_function(keys[0], type_info(declared), columns)
        else:
            raise InvalidRequestError(
                "key_by takes column names, or a Python function and a key type, "
                f"not {', '.join(repr(key) for key in keys) or 'nothing'}"
            )
        order = order_columns(order_by, columns, "order_by")
        return KeyedStream(self._environment, self._node, selector, order)

    def to_dataframe(self) -> DataFrame:
        """The stream as an ordinary streaming DataFrame.

        Its state is queryable once the caller starts it with `writeStream`, whatever
        the sink and the trigger. `env.execute` does not run it again.
        """
        return self._environment._dataframe_of(self._node)

    def print(self) -> DataStreamSink:
        """Prints each element on the driver's standard output."""
        return self.add_sink(_print_rows)._named("print")

    def add_sink(self, function: Callable[[DataFrame, int], object]) -> DataStreamSink:
        """Calls a function with the DataFrame and the id of each batch, as `foreachBatch` does.

        The function runs in the driver and again when Spark repeats a batch. Threads
        it starts must be `pyspark.InheritableThread`s.
        """
        if not callable(function):
            raise InvalidRequestError(
                f"a sink is a function of a DataFrame and a batch id, not {function!r}"
            )
        node = SinkNode(upstream=self._node, write=function)
        self._environment._add_sink(node)
        return DataStreamSink(node)

    def sink_to(self, function: Callable[[DataFrame, int], object]) -> DataStreamSink:
        """The same as `add_sink`."""
        return self.add_sink(function)


class _StatefulOperator:
    """What can be said of a stateful operator and its state."""

    _node: OperatorNode

    def uid(self, uid: str) -> Self:
        """Identity of the operator's state within the job, kept when the program changes."""
        self._node.given_uid = check_name("a uid", uid)
        return self

    def name(self, name: str) -> Self:
        """Name of the operator, for people."""
        self._node.given_name = check_name("the name of an operator", name)
        return self

    def renamed_fields(self, renamed: Mapping[str, str]) -> Self:
        """Declares fields of the state's rows that had other names before, `{new path: old name}`;
        see `StateDescriptor.set_renamed_fields`."""
        self._node.operator = with_renamed_fields(self._node.operator, renamed)
        return self

    def dropped_fields(self, *dropped: str) -> Self:
        """Declares stored fields of the state's rows that are gone for good, by path; see
        `StateDescriptor.set_dropped_fields`."""
        self._node.operator = with_dropped_fields(self._node.operator, dropped)
        return self


class OperatorStream(_StatefulOperator, DataStream):
    """What a stateful operator puts out."""

    _node: OperatorNode


class QueryableStateStream(_StatefulOperator):
    """A queryable state that a keyed stream is written to; the end of that stream."""

    def __init__(
        self, environment: StreamExecutionEnvironment, node: OperatorNode, queryable_name: str
    ) -> None:
        self._environment = environment
        self._node = node
        self._queryable_name = queryable_name

    @property
    def queryable_state_name(self) -> str:
        """Name to query the state by."""
        return self._queryable_name

    def to_dataframe(self) -> DataFrame:
        """The state's writer as a streaming DataFrame without rows.

        The state is written once the caller starts it with `writeStream`, for
        instance `.format("noop")`. `env.execute` does not run it again.
        """
        return self._environment._dataframe_of(self._node)


class DataStreamSink:
    """A sink, to be named."""

    def __init__(self, node: SinkNode) -> None:
        self._node = node

    def name(self, name: str) -> Self:
        """Name of the sink, for people."""
        return self._named(check_name("the name of a sink", name))

    def _named(self, name: str) -> Self:
        self._node.name = name
        return self


def _print_rows(batch: DataFrame, batch_id: int) -> None:
    for row in batch.collect():
        print(row, flush=True)  # noqa: T201 - what print() is for
