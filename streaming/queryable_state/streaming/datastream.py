"""Data streams: elements, keyed elements, and the operators on them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.descriptors import ValueStateDescriptor
from queryable_state.streaming.functions import KeyedProcessFunction, ReducingStateDescriptor
from queryable_state.streaming.jobs.elements import Columns
from queryable_state.streaming.jobs.graph import OperatorNode, SinkNode
from queryable_state.streaming.jobs.keys import KeySelector
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
    from queryable_state.streaming.jobs.graph import StreamNode
    from queryable_state.streaming.operator_handles import StreamEnvironment
    from queryable_state.streaming.ordering import DefaultOrder, OrderBy
    from queryable_state.streaming.runtime.columns.row_order import OrderColumn
    from queryable_state.streaming.runtime.operators.operators import Operator


class DataStream:
    """A stream; made by an environment or by an operator on another stream."""

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
        return self.add_sink(_print_rows).name("print")

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


class KeyedStream:
    """A stream partitioned by key; made by `DataStream.key_by`."""

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

        `output_type` is a row (`Types.ROW_NAMED`, a DDL string of columns), whose
        fields become columns, or any other type, whose values make the column `value`.
        """
        if not isinstance(function, KeyedProcessFunction):
            raise InvalidRequestError(
                f"process takes an instance of KeyedProcessFunction, not {function!r}"
            )
        output = type_info(output_type)
        return self._stream("process", KeyedProcess(function), self._all, output)

    def reduce(self, function: ReduceFunction[Any] | Callable[[Any, Any], Any]) -> OperatorStream:
        """Reduces the elements of each key; puts out the reduced value for each element."""
        element = self._node.columns.element_type(self._all, "reduce")
        descriptor = ReducingStateDescriptor("reduce", function, element)
        return self._stream("reduce", ReduceOperator(descriptor), self._all, element)

    def sum(self, *columns: str, queryable_name: str | None = None) -> OperatorStream:
        """Sums of columns by key, in the columns' own types; null counts as nothing.

        As `min` and `max` do, it puts out one row (key columns, then these) a batch
        for each key touched; with `queryable_name` the state itself can be queried.
        """
        return self._aggregate(AggregateKind.SUM, columns, queryable_name)

    def min(self, *columns: str, queryable_name: str | None = None) -> OperatorStream:
        """Minima of columns by key; see `sum`."""
        return self._aggregate(AggregateKind.MIN, columns, queryable_name)

    def max(self, *columns: str, queryable_name: str | None = None) -> OperatorStream:
        """Maxima of columns by key; see `sum`."""
        return self._aggregate(AggregateKind.MAX, columns, queryable_name)

    def as_queryable_state(
        self,
        name: str,
        descriptor: ValueStateDescriptor | ReducingStateDescriptor | None = None,
        *,
        latest_by: OrderBy | None = None,
    ) -> QueryableStateStream:
        """Makes the last element of each key, or all of them reduced, queryable as `name`.

        Without a descriptor an element is kept whole. A row type of a descriptor
        takes the columns it names; another type takes the one column beside the key and those of
        the order.

        `latest_by` (a column or several, as `order_by` of `key_by`) says which element is the
        last one: that with the greatest value of all batches, so that a late row changes
        nothing. Of equal ones a later batch's stays, and within a batch the one that comes last
        by `order_by`, then by its input partition. Null is smaller than every value: an element
        whose `latest_by` is null stays only until one has a value.

        **Without `latest_by` the last element is the last one to arrive**: of the newest batch,
        by the order of `key_by`. Where a batch is read from several files or Kafka partitions
        and `key_by` has no order, that is any of the batch.
        """
        latest = order_columns(latest_by, self._node.columns, "latest_by")
        if latest and isinstance(descriptor, ReducingStateDescriptor):
            raise InvalidRequestError(
                f"as_queryable_state({name!r}): latest_by chooses one element of a key, and "
                f"{descriptor!r} reduces all of them: leave one of both out"
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
                upstream=self._node,
                kind=kind,
                keys=self._keys,
                operator=operator,
                value_columns=names,
                value_type=value_type,
                output_type=output,
                columns=Columns({}) if output is None else Columns.of_output(output),
                order=() if isinstance(operator, Aggregate) else self._order,
            )
        )


class OperatorStream(StatefulOperator, DataStream):
    """What a stateful operator puts out."""

    _node: OperatorNode


def _print_rows(batch: DataFrame, batch_id: int) -> None:
    for row in batch.collect():
        print(row, flush=True)  # noqa: T201 - what print() is for
