"""A stream partitioned by key, and the stateful operators on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.descriptors import (
    ReducingStateDescriptor,
    StateDescriptor,
    ValueStateDescriptor,
)
from queryable_state.streaming.elements import Columns
from queryable_state.streaming.functions import KeyedProcessFunction
from queryable_state.streaming.jobs.graph import OperatorNode
from queryable_state.streaming.ordering import order_columns
from queryable_state.streaming.runtime.operators.operators import (
    Aggregate,
    AggregateKind,
    FieldAggregate,
    KeyedProcess,
    LatestValueSink,
    ReducingSink,
)
from queryable_state.streaming.runtime.operators.operators import Reduce as ReduceOperator
from queryable_state.wire.errors import DescriptorMismatchError, InvalidRequestError
from queryable_state.wire.schema.types import Field, Kind, TypeInfo, type_info

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.streaming.datastream import OperatorStream, QueryableStateStream
    from queryable_state.streaming.environment import StreamExecutionEnvironment
    from queryable_state.streaming.functions import ReduceFunction
    from queryable_state.streaming.jobs.graph import StreamNode
    from queryable_state.streaming.keys import KeySelector
    from queryable_state.streaming.ordering import OrderBy
    from queryable_state.streaming.runtime.columns.row_order import OrderColumn
    from queryable_state.streaming.runtime.operators.operators import Operator

_NUMBERS = frozenset(
    {Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL}
)
_ORDERED = _NUMBERS | {Kind.STRING, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ}


class KeyedStream:
    """A stream partitioned by key; made by `DataStream.key_by`."""

    def __init__(
        self,
        environment: StreamExecutionEnvironment,
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
            names = self._columns_for(name, descriptor, latest)
        if descriptor.queryable_name != name:
            descriptor.set_queryable(name)
        operator: Operator
        if isinstance(descriptor, ValueStateDescriptor):
            operator = LatestValueSink.of(descriptor, names, latest)
        else:
            operator = ReducingSink(descriptor)
        node = self._add("queryable-state", operator, names, descriptor.value_type, None)
        return self._environment._queryable_stream(node, name)

    @property
    def _all(self) -> tuple[str, ...]:
        return self._node.columns.names

    def _aggregate(
        self, kind: AggregateKind, names: tuple[str, ...], queryable_name: str | None
    ) -> OperatorStream:
        if not names or len(set(names)) < len(names):
            raise InvalidRequestError(f"{kind}() takes the columns to aggregate, each once")
        usable = _NUMBERS if kind is AggregateKind.SUM else _ORDERED
        fields = []
        for name in names:
            info = self._node.columns.type_of(name, f"{kind}()")
            if info.kind not in usable:
                raise InvalidRequestError(
                    f"{kind}({name!r}): a column of type {info} has no {kind}"
                )
            if name in self._keys.columns:
                raise InvalidRequestError(f"{kind}({name!r}): the column is part of the key")
            fields.append(FieldAggregate(name, kind, info))
        output = TypeInfo(
            Kind.ROW,
            fields=(*self._keys.fields, *(Field(field.column, field.type) for field in fields)),
        )
        operator = Aggregate(tuple(fields), str(kind), queryable_name)
        return self._stream(str(kind), operator, names, output)

    def _columns_for(
        self, name: str, descriptor: StateDescriptor, latest: tuple[OrderColumn, ...]
    ) -> tuple[str, ...]:
        """The columns whose values a descriptor's type describes."""
        purpose = f"as_queryable_state({name!r})"
        if not isinstance(descriptor, ValueStateDescriptor | ReducingStateDescriptor):
            raise InvalidRequestError(
                f"{purpose} takes a ValueStateDescriptor or a ReducingStateDescriptor, "
                f"not {descriptor!r}"
            )
        wanted = descriptor.value_type
        columns = self._node.columns
        if wanted is None or columns.bare:
            names = self._all
        elif wanted.kind == Kind.ROW:
            names = tuple(field.name for field in wanted.fields)
        else:
            names = tuple(column for column in self._all if column not in self._keys.columns)
            if len(names) > 1:
                ordering = {key.column for key in (*latest, *self._order)}
                names = tuple(column for column in names if column not in ordering)
            if len(names) != 1:
                raise DescriptorMismatchError(
                    f"{purpose}: the descriptor's type {wanted} is one value, but the stream has "
                    f"{len(names)} columns beside the key and the order; select one, or describe a "
                    "row"
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

    def _stream(
        self, kind: str, operator: Operator, names: tuple[str, ...], output: TypeInfo
    ) -> OperatorStream:
        value_type = self._node.columns.element_type(names, kind)
        return self._environment._operator_stream(
            self._add(kind, operator, names, value_type, output)
        )

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
