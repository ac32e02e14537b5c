"""Queryable states that a keyed stream is written to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.streaming.operator_handles import QueryableStateStream

if TYPE_CHECKING:
    from queryable_state.streaming.descriptors import ValueStateDescriptor
    from queryable_state.streaming.functions import ReducingStateDescriptor
    from queryable_state.streaming.ordering import OrderBy
    from queryable_state.streaming.streams.keyed_input import KeyedInput


class QueryableSinks:
    """The method that makes the elements of each key queryable."""

    _input: KeyedInput

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
        node = self._input.queryable_sink(name, descriptor, latest_by)
        return QueryableStateStream(self._input.environment, node, name)
