"""Queryable states that a keyed stream is written to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.streaming.operator_handles import QueryableStateStream

if TYPE_CHECKING:
    from queryable_state.streaming.descriptors import ValueStateDescriptor
    from queryable_state.streaming.functions import ReducingStateDescriptor
    from queryable_state.streaming.ordering import OrderBy
    from queryable_state.streaming.streams.keyed_input import KeyedInput
    from queryable_state.streaming.streams.windowed.sink_windows import Retain


class QueryableSinks:
    """The method that makes the elements of each key queryable."""

    _input: KeyedInput

    def as_queryable_state(
        self,
        name: str,
        descriptor: ValueStateDescriptor | ReducingStateDescriptor | None = None,
        *,
        latest_by: OrderBy | None = None,
        window: str | None = None,
        retain: Retain | None = None,
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

        `window` is a column with time windows, as Spark's `window` function makes them. It is not
        part of the key, and the last element is kept for each key and window: clients name both, or
        read all windows of a key. A window may also be part of the key.

        Either way the value of a window is removed with the first batch whose watermark has reached
        the window's end, when Spark drops the window from its own state, or `retain` later (in
        event time; "forever": never). Without a watermark nothing is removed. A window in the
        key is recognised if it is the event-time column of the watermark; for another one give
        `retain`.

        Raises InvalidRequestError if a column is missing or has another type than it needs.
        """
        node = self._input.queryable_sink(name, descriptor, latest_by, window, retain)
        return QueryableStateStream(self._input.environment, node, name)
