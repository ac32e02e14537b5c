"""Spark task function of a chain of functions without state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark import TaskContext

from queryable_state.server.process.console_log import log_to_console
from queryable_state.streaming.spark.queries.failure import failed_in_task
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from queryable_state.streaming.runtime.stateless.chain import ChainSpec

_BATCH_ID = "streaming.sql.batchId"


@dataclass(frozen=True)
class ChainFunction:
    """A function for `mapped_in_arrow`: pickled in the driver, called once per task."""

    spec: ChainSpec

    @property
    def __name__(self) -> str:
        """The names of the functions, which Spark shows in the query's plan."""
        keys = () if self.spec.keys is None else (self.spec.keys,)
        return " -> ".join(each.name for each in (*self.spec.steps, *keys))

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from queryable_state.streaming.runtime.stateless.chain import ChainTask

        log_to_console()
        task = TaskContext.get()
        partition = 0 if task is None else task.partitionId()
        batch_id = None if task is None else task.getLocalProperty(_BATCH_ID)
        where = f", partition {partition}" + (f" of batch {batch_id}" if batch_id else "")
        try:
            yield from ChainTask(self.spec, partition, where).run(batches)
        except QueryableStateError as error:
            raise failed_in_task(error) from None
