"""Count, sum and maximum by key as batch functions over Arrow columns."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from queryable_state.streaming import KeyedBatchProcessFunction, Types, ValueStateDescriptor

if TYPE_CHECKING:
    import numpy.typing as npt

    from queryable_state.streaming import BatchKeys, BatchRuntimeContext, BatchState

    Numbers = npt.NDArray[np.int64]

TOTALS = Types.ROW_NAMED(["count", "total", "highest"], [Types.LONG(), Types.LONG(), Types.LONG()])
_LEAST = np.iinfo(np.int64).min


class _Totals(KeyedBatchProcessFunction):
    def __init__(self, queryable_name: str) -> None:
        self.queryable_name = queryable_name

    def open(self, runtime_context: BatchRuntimeContext) -> None:
        descriptor = ValueStateDescriptor("totals", TOTALS)
        descriptor.set_queryable(self.queryable_name)
        runtime_context.get_state(descriptor)

    def process_batch(self, keys: BatchKeys, table: pa.Table, state: BatchState) -> pa.Table:
        totals = state["totals"]
        count, total, highest = totals.values().flatten()
        stored = [
            count.fill_null(0).to_numpy().copy(),
            total.fill_null(0).to_numpy().copy(),
            highest.fill_null(_LEAST).to_numpy().copy(),
        ]
        values = table["value"].to_numpy()
        indices = keys.indices.to_numpy()
        output = self.output(keys, table, stored, indices, values)
        stored[0] += np.bincount(indices, minlength=len(keys))
        np.add.at(stored[1], indices, values)
        np.maximum.at(stored[2], indices, values)
        columns = dict(zip(("count", "total", "highest"), stored, strict=True))
        totals.update(pa.table(columns))
        return pa.table({"key": keys.values, **columns}) if output is None else output

    @abstractmethod
    def output(
        self,
        keys: BatchKeys,
        table: pa.Table,
        stored: list[Numbers],
        indices: Numbers,
        values: Numbers,
    ) -> pa.Table | None:
        """The output, given the totals before the chunk; None: the new totals of each key."""


class TotalsByKey(_Totals):
    """Emits the totals of each key of a chunk, as Spark's native aggregation does a batch."""

    def output(
        self,
        keys: BatchKeys,
        table: pa.Table,
        stored: list[Numbers],
        indices: Numbers,
        values: Numbers,
    ) -> None:
        return None


class TotalsByRow(_Totals):
    """Emits the running totals behind each row."""

    def output(
        self,
        keys: BatchKeys,
        table: pa.Table,
        stored: list[Numbers],
        indices: Numbers,
        values: Numbers,
    ) -> pa.Table:
        by_key = np.argsort(indices, kind="stable")
        key, value = indices[by_key], values[by_key]
        firsts = np.flatnonzero(np.diff(key, prepend=-1))
        run = np.repeat(np.arange(len(firsts)), np.diff(firsts, append=len(key)))
        sums = np.cumsum(value)
        before = (sums - value)[firsts]
        # Each run of a key lies above the runs before it: one accumulation serves all of them.
        span = int(value.max()) - int(value.min()) + 1
        peaks = np.maximum.accumulate(value + run * span) - run * span
        running = (
            np.arange(1, len(key) + 1) - firsts[run] + stored[0][key],
            sums - before[run] + stored[1][key],
            np.maximum(peaks, stored[2][key]),
        )
        places = np.empty_like(by_key)
        places[by_key] = np.arange(len(by_key))
        count, total, highest = (column[places] for column in running)
        return pa.table({"key": table["key"], "count": count, "total": total, "highest": highest})
