"""Execution of one operator in a Spark task."""

from __future__ import annotations

import functools
import gc
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.streaming.runtime.operators import (
    columnar_operators,
    latest_value,
    row_operators,
)
from queryable_state.streaming.runtime.operators.operators import (
    Aggregate,
    KeyedProcess,
    LatestValueSink,
    Reduce,
    ReducingSink,
)
from queryable_state.streaming.runtime.operators.ordered_rows import in_order
from queryable_state.streaming.runtime.states.state_spec import subtask_mismatch
from queryable_state.streaming.runtime.states.task_states import where
from queryable_state.wire.errors import InvalidRequestError, JobError, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    import pyarrow as pa

    from queryable_state.streaming.runtime.operators.spec import OperatorSpec
    from queryable_state.streaming.runtime.states.access import StateAccess
    from queryable_state.streaming.runtime.states.state_spec import TaskIdentity

_GC_THRESHOLDS = (100_000, 50, 1000)


@functools.cache
def _freeze_imported_objects() -> None:
    """Excludes the objects that exist at the process's first task from garbage collection.

    Spark collects all garbage after each task, which can cost more than the task. The result is
    cached because `gc.get_freeze_count` walks all frozen objects.
    """
    gc.freeze()


@dataclass(frozen=True)
class OperatorTask:
    """An operator in a Spark task, from input batches to output batches.

    The state is prepared after the consumer has read the last output. If the consumer stops early,
    the state stays unprepared and the coordinator reports that at the commit. Therefore the
    consumer is a shuffle, which reads all outputs unless Spark cancels the task.
    """

    spec: OperatorSpec

    def __call__(
        self,
        batches: Iterator[pa.RecordBatch],
        task: TaskIdentity,
        backend_address: str | Callable[[], str],
    ) -> Generator[pa.RecordBatch, None, None]:
        """Runs with the state server of this executor.

        `backend_address` is its HOST:PORT, or a function that returns it and may restart the
        server; the function is called whenever the owner has to be located.
        """
        # gRPC must not be imported before Spark forks its workers.
        from queryable_state.streaming.runtime.backend_client import BackendClient

        if isinstance(self.spec.operator, KeyedProcess | Reduce | ReducingSink):
            # While the task runs, nothing else runs in this worker process. At the default
            # thresholds hundreds of thousands of rows trigger useless collections.
            gc.set_threshold(*_GC_THRESHOLDS)
        _freeze_imported_objects()
        _check_identity(self.spec, task)
        yield from self.run(batches, task, BackendClient(self.spec, task, backend_address))

    def run(
        self, batches: Iterator[pa.RecordBatch], task: TaskIdentity, access: StateAccess
    ) -> Generator[pa.RecordBatch, None, None]:
        """Runs with any implementation of state access."""
        spec = self.spec
        _check_identity(spec, task)
        filled = (batch for batch in batches if batch.num_rows)
        rows = in_order(filled, spec) if spec.order else filled
        match spec.operator:
            case KeyedProcess(function):
                return row_operators.run_process(function, spec, task, access, rows)
            case Reduce(descriptor):
                return row_operators.run_reduce(descriptor, spec, task, access, rows, emit=True)
            case ReducingSink(descriptor):
                return row_operators.run_reduce(descriptor, spec, task, access, rows, emit=False)
            case LatestValueSink() as sink:
                return latest_value.run_latest(sink, spec, task, access, filled)
            case Aggregate() as aggregate:
                return columnar_operators.run_aggregate(aggregate, spec, task, access, filled)
        raise InvalidRequestError(f"{where(spec, task)}: {spec.operator!r} is not an operator")


def _check_identity(spec: OperatorSpec, task: TaskIdentity) -> None:
    if task.batch_id < 0:
        raise JobError(
            f"operator {spec.name!r} (uid {spec.uid}): Spark gave the task no batch id, so its "
            "state cannot be exactly-once. Stateful operators run only in streaming queries: use "
            "readStream and writeStream, not a batch read or a collect",
            reason=Reason.MISSING_BATCH_ID,
        )
    if not 0 <= task.subtask < spec.parallelism:
        raise subtask_mismatch(
            f"operator {spec.name!r} (uid {spec.uid}) has subtasks 0 to {spec.parallelism - 1}, "
            f"but its task of batch {task.batch_id} runs as partition {task.subtask}"
        )
    if len(task.query_id) != 16 or len(task.run_id) != 16:
        raise JobError(
            f"operator {spec.name!r} (uid {spec.uid}): query id and run id must have 16 bytes, "
            f"not {task.query_id.hex()!r} and {task.run_id.hex()!r}",
            reason=Reason.MISSING_BATCH_ID,
        )
