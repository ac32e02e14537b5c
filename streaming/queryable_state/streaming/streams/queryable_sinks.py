"""Queryable states that a keyed stream is written to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.streaming.descriptors import ValueStateDescriptor
from queryable_state.streaming.functions import ReducingStateDescriptor
from queryable_state.streaming.operator_columns import stored_columns
from queryable_state.streaming.operator_handles import QueryableStateStream
from queryable_state.streaming.ordering import order_columns
from queryable_state.streaming.runtime.operators.operators import LatestValueSink, ReducingSink
from queryable_state.streaming.streams.keyed_node import KeyedNode
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from queryable_state.streaming.ordering import OrderBy
    from queryable_state.streaming.runtime.operators.operators import Operator


class QueryableSinks(KeyedNode):
    """The method that makes the elements of each key queryable."""

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
        latest = order_columns(latest_by, self._columns, "latest_by")
        if latest and isinstance(descriptor, ReducingStateDescriptor):
            raise InvalidRequestError(
                f"as_queryable_state({name!r}): latest_by selects one element of a key, but "
                f"{descriptor!r} reduces all of them: remove one of the two"
            )
        if descriptor is None:
            names = self._columns.names
            element = self._columns.element_type(names, f"as_queryable_state({name!r})")
            descriptor = ValueStateDescriptor(name, element)
        else:
            names = stored_columns(
                f"as_queryable_state({name!r})",
                descriptor,
                self._columns,
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
