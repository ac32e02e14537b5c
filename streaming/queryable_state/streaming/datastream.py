"""Data streams: elements, keyed elements, and the operators on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.descriptors import ValueStateDescriptor
from queryable_state.streaming.functions import KeyedProcessFunction, ReducingStateDescriptor
from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.graph.keys import KeySelector
from queryable_state.streaming.graph.nodes import OperatorInput, OperatorNode, SinkNode
from queryable_state.streaming.operator_columns import aggregated_columns, stored_columns
from queryable_state.streaming.operator_handles import (
    DataStreamSink,
    QueryableStateStream,
    StatefulOperator,
)
from queryable_state.streaming.ordering import EVENT_TIME, order_columns
from queryable_state.streaming.runtime.operators.operators import (
    Aggregate,
    AggregateKind,
    KeyedProcess,
    LatestValueSink,
    ReducingSink,
)
from queryable_state.streaming.runtime.operators.operators import Reduce as ReduceOperator
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.types import Field, Kind, TypeInfo, type_info

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from queryable_state.streaming.functions import ReduceFunction
    from queryable_state.streaming.graph.nodes import StreamNode
    from queryable_state.streaming.operator_handles import StreamEnvironment
    from queryable_state.streaming.ordering import DefaultOrder, OrderBy
    from queryable_state.streaming.runtime.columns.row_order import OrderColumn
    from queryable_state.streaming.runtime.operators.operators import Operator


class DataStream:
    """A stream of elements; created by an environment or by an operator on another stream."""

    def __init__(self, environment: StreamEnvironment, node: StreamNode) -> None:
        self._environment = environment
        self._node = node

    def key_by(
        self,
        *keys: Any,
        key_type: object = None,
        order_by: OrderBy | DefaultOrder | None = EVENT_TIME,
    ) -> KeyedStream:
        """Partitions the stream by key.

        `key_by("a", "b")` takes columns: one column is a bare key, several form a row.
        `key_by(function, key_type)` takes a deterministic Python function from an element to its
        key.

        `order_by` is the order of a key's rows within each batch: a column, `("ts", "desc")`, or a
        list of these; `window.end` names a field of a column. As in Spark, null sorts before every
        value and NaN after every number; `desc` is the reverse. Rows that are equal in all columns
        are ordered by input partition number, then by position in the partition, so a replayed
        batch has the same order. The order does not span batches.

        The default `order_by` is the event-time column of the DataFrame's watermark, if there is
        one. Otherwise, or with `order_by=None`, rows are in arrival order: **rows of one Kafka
        partition or one file split keep their order; rows of different ones interleave in any
        order**. `sum`, `min` and `max` ignore the order.
        """
        columns = self._node.columns
        if keys and all(isinstance(key, str) for key in keys) and key_type is None:
            selector = KeySelector.by_columns(keys, columns)
        elif len(keys) in (1, 2) and callable(keys[0]):
            declared = keys[1] if len(keys) == 2 else key_type
            if declared is None:
                raise InvalidRequestError(
                    "key_by(function) needs the key's type, as in key_by(function, Types.STRING())"
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

        The caller starts it with `writeStream`, with any sink and trigger; then its state is
        queryable. `env.execute` does not run it.
        """
        return self._environment._dataframe_of(self._node)

    def print(self) -> DataStreamSink:
        """Prints each element on the driver's standard output."""
        return self.add_sink(_print_rows).name("print")

    def add_sink(self, function: Callable[[DataFrame, int], object]) -> DataStreamSink:
        """Calls a function with the DataFrame and the id of each batch, as `foreachBatch` does.

        The function runs in the driver, and runs again when Spark replays a batch. Threads that
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


class KeyedStream:
    """A stream partitioned by key; created by `DataStream.key_by`."""

    def __init__(
        self,
        environment: StreamEnvironment,
        node: StreamNode,
        keys: KeySelector,
        order: tuple[OrderColumn, ...] = (),
    ) -> None:
        self._environment = environment
        self._node = node
        self._keys = keys
        self._order = order

    def process(self, function: KeyedProcessFunction, output_type: object) -> OperatorStream:
        """Runs a function with state over the elements.

        `output_type` is a row (`Types.ROW_NAMED`, a DDL string of columns), whose fields become
        the output columns, or another type for the only output column, `value`.
        """
        if not isinstance(function, KeyedProcessFunction):
            raise InvalidRequestError(
                f"process takes an instance of KeyedProcessFunction, not {function!r}"
            )
        output = type_info(output_type)
        return self._stream("process", KeyedProcess(function), self._all, output)

    def reduce(self, function: ReduceFunction[Any] | Callable[[Any, Any], Any]) -> OperatorStream:
        """Reduces the elements of each key; emits the reduced value for each element."""
        element = self._node.columns.element_type(self._all, "reduce")
        descriptor = ReducingStateDescriptor("reduce", function, element)
        return self._stream("reduce", ReduceOperator(descriptor), self._all, element)

    def sum(self, *columns: str, queryable_name: str | None = None) -> OperatorStream:
        """Sums columns by key, in the columns' own types; nulls are ignored.

        Like `min` and `max` it emits, per batch, one row for each key of the batch: the key
        columns, then the sums. With `queryable_name` the state itself can be queried.
        """
        return self._aggregate(AggregateKind.SUM, columns, queryable_name)

    def min(self, *columns: str, queryable_name: str | None = None) -> OperatorStream:
        """Computes minima of columns by key; see `sum`."""
        return self._aggregate(AggregateKind.MIN, columns, queryable_name)

    def max(self, *columns: str, queryable_name: str | None = None) -> OperatorStream:
        """Computes maxima of columns by key; see `sum`."""
        return self._aggregate(AggregateKind.MAX, columns, queryable_name)

    def as_queryable_state(
        self,
        name: str,
        descriptor: ValueStateDescriptor | ReducingStateDescriptor | None = None,
        *,
        latest_by: OrderBy | None = None,
    ) -> QueryableStateStream:
        """Makes the last element of each key, or all of them reduced, queryable as `name`.

        Without a descriptor the whole element is stored. A descriptor with a row type selects the
        columns that the row names; with another type it selects the only column that is neither a
        key nor an order column.

        `latest_by` (one or several columns, as `order_by` of `key_by`) defines the last element:
        the one with the greatest value over all batches, so a late row changes nothing. Of equal
        elements the later batch's wins; within a batch, the last by `order_by`, then by input
        partition. Null is smaller than every value.

        **Without `latest_by` the last element is the last to arrive**: the last of the newest
        batch, by the order of `key_by`. If a batch is read from several files or Kafka partitions
        and `key_by` has no order, it may be any element of the batch.
        """
        latest = order_columns(latest_by, self._node.columns, "latest_by")
        if latest and isinstance(descriptor, ReducingStateDescriptor):
            raise InvalidRequestError(
                f"as_queryable_state({name!r}): latest_by selects one element of a key, but "
                f"{descriptor!r} reduces all of them: remove one of the two"
            )
        if descriptor is None:
            names = self._all
            element = self._node.columns.element_type(names, f"as_queryable_state({name!r})")
            descriptor = ValueStateDescriptor(name, element)
        else:
            names = stored_columns(
                f"as_queryable_state({name!r})",
                descriptor,
                self._node.columns,
                self._keys,
                {key.column for key in (*latest, *self._order)},
            )
        if descriptor.queryable_name != name:
            descriptor.set_queryable(name)
        operator: Operator
        if isinstance(descriptor, ValueStateDescriptor):
            operator = LatestValueSink.of(descriptor, names, latest)
        else:
            operator = ReducingSink(descriptor)
        node = self._add("queryable-state", operator, names, descriptor.value_type, None)
        return QueryableStateStream(self._environment, node, name)

    @property
    def _all(self) -> tuple[str, ...]:
        return self._node.columns.names

    def _aggregate(
        self, kind: AggregateKind, names: tuple[str, ...], queryable_name: str | None
    ) -> OperatorStream:
        fields = aggregated_columns(kind, names, self._node.columns, self._keys)
        output = TypeInfo(
            Kind.ROW,
            fields=(*self._keys.fields, *(Field(field.column, field.type) for field in fields)),
        )
        operator = Aggregate(fields, str(kind), queryable_name)
        return self._stream(str(kind), operator, names, output)

    def _stream(
        self, kind: str, operator: Operator, names: tuple[str, ...], output: TypeInfo
    ) -> OperatorStream:
        value_type = self._node.columns.element_type(names, kind)
        node = self._add(kind, operator, names, value_type, output)
        return OperatorStream(self._environment, node)

    def _add(
        self,
        kind: str,
        operator: Operator,
        names: tuple[str, ...],
        value_type: TypeInfo | None,
        output: TypeInfo | None,
    ) -> OperatorNode:
        assert value_type is not None, "only an aggregating state may have no value type"
        return self._environment._add_operator(
            OperatorNode(
                inputs=(
                    OperatorInput(
                        upstream=self._node,
                        keys=self._keys,
                        value_columns=names,
                        value_type=value_type,
                        order=() if isinstance(operator, Aggregate) else self._order,
                    ),
                ),
                kind=kind,
                operator=operator,
                output_type=output,
                columns=Columns({}) if output is None else Columns.of_output(output),
            )
        )


class OperatorStream(StatefulOperator, DataStream):
    """The output of a stateful operator."""

    _node: OperatorNode


def _print_rows(batch: DataFrame, batch_id: int) -> None:
    for row in batch.collect():
        print(row, flush=True)  # noqa: T201 - what print() is for
