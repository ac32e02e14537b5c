"""A keyed stream as the input of operators, which it adds to the next job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.streaming.descriptors import ValueStateDescriptor
from queryable_state.streaming.functions import (
    AggregatingStateDescriptor,
    ReducingStateDescriptor,
)
from queryable_state.streaming.graph.elements import Columns
from queryable_state.streaming.graph.nodes import OperatorInput, OperatorNode
from queryable_state.streaming.ordering import order_columns
from queryable_state.streaming.runtime.aggregates.aggregate import Aggregate, AggregateKind
from queryable_state.streaming.runtime.aggregates.windowed_aggregate import WindowedAggregate
from queryable_state.streaming.runtime.operators.operators import (
    KeyedBatchProcess,
    LatestValueSink,
    ReducingSink,
)
from queryable_state.streaming.runtime.windows.window_operator import WindowOperator
from queryable_state.streaming.streams.operator_columns import aggregated_columns, stored_columns
from queryable_state.streaming.streams.windowed.sink_windows import sink_window
from queryable_state.wire.errors import InvalidRequestError, Reason
from queryable_state.wire.schema.types import Field, Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.streaming.graph.keys import KeySelector
    from queryable_state.streaming.graph.nodes import StreamNode
    from queryable_state.streaming.operator_handles import StreamEnvironment
    from queryable_state.streaming.ordering import OrderBy
    from queryable_state.streaming.runtime.columns.row_order import OrderColumn
    from queryable_state.streaming.runtime.operators.operators import Operator
    from queryable_state.streaming.streams.windowed.sink_windows import Retain


@dataclass(frozen=True)
class KeyedInput:
    """A stream, its keys, and the order of a key's rows within each batch."""

    environment: StreamEnvironment
    node: StreamNode
    """The node with the columns of the elements and of the key."""
    keys: KeySelector
    columns: Columns
    """Columns of the elements."""
    order: tuple[OrderColumn, ...] = ()

    def element_type(self, purpose: str) -> TypeInfo:
        """Type of the elements; raises InvalidRequestError, naming `purpose`, if they have none."""
        return self.columns.element_type(self.columns.names, purpose)

    def whole(self, purpose: str) -> OperatorInput:
        """The input of an operator that reads whole elements."""
        return self._input(self.columns.names, self.element_type(purpose), self.order)

    def operator(
        self,
        kind: str,
        operator: Operator,
        output: TypeInfo | None,
        *,
        before: Sequence[OperatorInput] = (),
    ) -> OperatorNode:
        """Adds an operator that reads whole elements, and the inputs `before` it first."""
        return self._added(kind, operator, (*before, self.whole(kind)), output)

    def aggregate(
        self, kind: AggregateKind, names: tuple[str, ...], queryable_name: str | None
    ) -> OperatorNode:
        """Adds a vectorised aggregation of columns."""
        fields = aggregated_columns(kind, names, self.columns, self.keys)
        output = TypeInfo(
            Kind.ROW,
            fields=(*self.keys.fields, *(Field(field.column, field.type) for field in fields)),
        )
        operator = Aggregate(fields, str(kind), queryable_name)
        read = self._input(names, self.columns.element_type(names, str(kind)), ())
        return self._added(f"aggregate_{kind}", operator, (read,), output)

    def queryable_sink(
        self,
        name: str,
        descriptor: ValueStateDescriptor | ReducingStateDescriptor | None,
        latest_by: OrderBy | None,
        window: str | None,
        retain: Retain | None,
    ) -> OperatorNode:
        """Adds a sink that keeps the last element of each key, or all of them reduced."""
        columns = self.columns
        latest = order_columns(latest_by, columns, "latest_by")
        windows = sink_window(self.node, self.keys, columns, name, window, retain)
        if windows is not None and isinstance(descriptor, ReducingStateDescriptor):
            if window is not None or retain is not None:
                raise InvalidRequestError(
                    f"as_queryable_state({name!r}): window and retain are for the last element of "
                    f"each window, but {descriptor!r} reduces the elements: use "
                    "key_by(...).window(...).as_queryable_state, or remove window and retain",
                    reason=Reason.UNSUPPORTED,
                )
            windows = None
        if latest and isinstance(descriptor, ReducingStateDescriptor):
            raise InvalidRequestError(
                f"as_queryable_state({name!r}): latest_by selects one element of a key, but "
                f"{descriptor!r} reduces all of them: remove one of the two"
            )
        if descriptor is None:
            names = columns.names
            element = self.element_type(f"as_queryable_state({name!r})")
            descriptor = ValueStateDescriptor(name, element)
        else:
            names = stored_columns(
                f"as_queryable_state({name!r})",
                descriptor,
                columns,
                self.keys,
                {
                    *(key.column for key in (*latest, *self.order)),
                    *(() if windows is None else (windows.column,)),
                },
            )
        if descriptor.queryable_name != name:
            descriptor.set_queryable(name)
        operator: Operator
        if isinstance(descriptor, ValueStateDescriptor):
            operator = LatestValueSink.of(descriptor, names, latest, windows)
        else:
            operator = ReducingSink(descriptor)
        value_type = descriptor.value_type
        assert value_type is not None, "only an aggregating state may have no value type"
        read = self._input(names, value_type, self.order)
        return self._added("queryable-state", operator, (read,), None)

    def queryable_windows(
        self,
        name: str,
        descriptor: ReducingStateDescriptor | AggregatingStateDescriptor,
        operator: WindowOperator,
    ) -> OperatorNode:
        """Adds a window operator without outputs, whose windows are reduced or aggregated as the
        descriptor of its queryable state says."""
        purpose = f"as_queryable_state({name!r})"
        read = self.whole(purpose)
        if isinstance(descriptor, ReducingStateDescriptor):
            times = {self.columns.timestamps, *(key.column for key in self.order)}
            names = stored_columns(purpose, descriptor, self.columns, self.keys, times)
            read = self._input(names, descriptor.type_info, self.order)
        return self._added("window-queryable-state", operator, (read,), None)

    def windowed_aggregate(self, kind: str, operator: WindowedAggregate) -> OperatorNode:
        """Adds a vectorised aggregation of windows.

        Raises InvalidRequestError if two output columns have the same name.
        """
        fields = (*self.keys.fields, *operator.output_fields)
        names = [field.name for field in fields]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise InvalidRequestError(
                f"{kind}: two output columns have the name {twice!r}; they are the columns of the "
                "key, window_start, window_end and the aggregates: rename the aggregate with "
                "aggregate_columns(name=...), or the key column"
            )
        read = self.columns.names
        # The elements are needed whole only as a side output.
        if operator.late_tag is None:
            needed = {each.source for each in operator.columns}
            if operator.windows.is_event_time:
                needed.add(self.columns.timestamps)
            read = tuple(name for name in read if name in needed) or read[:1]
        value_type = self.columns.element_type(read, kind)
        inputs = (self._input(read, value_type, ()),)
        return self._added(kind, operator, inputs, TypeInfo(Kind.ROW, fields=fields))

    def _input(
        self, names: tuple[str, ...], value_type: TypeInfo, order: tuple[OrderColumn, ...]
    ) -> OperatorInput:
        return OperatorInput(
            upstream=self.node,
            keys=self.keys,
            value_columns=names,
            value_type=value_type,
            order=order,
        )

    def _added(
        self,
        kind: str,
        operator: Operator,
        inputs: tuple[OperatorInput, ...],
        output: TypeInfo | None,
    ) -> OperatorNode:
        columns = Columns({}) if output is None else Columns.of_output(output)
        if output is not None and isinstance(operator, WindowOperator | WindowedAggregate):
            columns = columns.with_internal_time()
        elif output is not None and not isinstance(operator, Aggregate | KeyedBatchProcess):
            columns = columns.with_timestamps_of(*(each.upstream.columns for each in inputs))
        return self.environment._add_operator(
            OperatorNode(
                inputs=inputs,
                kind=kind,
                operator=operator,
                output_type=output,
                columns=columns,
            )
        )
