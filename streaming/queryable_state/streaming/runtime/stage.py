"""Execution of a stage: the stateful operators that share one Spark task."""

from __future__ import annotations

import functools
import gc
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.streaming.runtime.aggregates.aggregate import Aggregate
from queryable_state.streaming.runtime.aggregates.aggregate_run import AggregateRun
from queryable_state.streaming.runtime.aggregates.windowed_aggregate import WindowedAggregate
from queryable_state.streaming.runtime.aggregates.windowed_run import WindowedAggregateRun
from queryable_state.streaming.runtime.columns.tagged_rows import TaggedRows
from queryable_state.streaming.runtime.operator_feed import OperatorFeed
from queryable_state.streaming.runtime.operator_states.unkeyed_operators import UnkeyedRun
from queryable_state.streaming.runtime.operators.broadcast_operators import BroadcastRun
from queryable_state.streaming.runtime.operators.function_run import ProcessRun, ReduceRun
from queryable_state.streaming.runtime.operators.latest_value import LatestValueRun
from queryable_state.streaming.runtime.operators.operators import (
    BroadcastProcess,
    KeyedBatchProcess,
    KeyedBroadcastProcess,
    KeyedCoProcess,
    KeyedProcess,
    LatestValueSink,
    Reduce,
    ReducingSink,
    UnkeyedStep,
)
from queryable_state.streaming.runtime.operators.spec import VALUE_COLUMN
from queryable_state.streaming.runtime.states.state_spec import subtask_mismatch, where
from queryable_state.streaming.runtime.timers.timed_run import TimedProcessRun
from queryable_state.streaming.runtime.vectorised.batch_process import BatchProcessRun
from queryable_state.streaming.runtime.windows.window_operator import WindowOperator
from queryable_state.streaming.runtime.windows.window_run import WindowRun
from queryable_state.wire.errors import InvalidRequestError, JobError, Reason
from queryable_state.wire.schema.types import Field, Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Sequence

    import pyarrow as pa

    from queryable_state.streaming.runtime.operators.operator_run import OperatorRun, Output
    from queryable_state.streaming.runtime.operators.spec import OperatorSpec
    from queryable_state.streaming.runtime.states.access import JointAccess, StateAccess
    from queryable_state.streaming.runtime.states.state_spec import TaskIdentity

_GC_THRESHOLDS = (100_000, 50, 1000)
_NO_OUTPUT = (Field(VALUE_COLUMN, TypeInfo(Kind.BOOLEAN)),)
"""Spark needs a column, also if no row has it."""


@dataclass(frozen=True, kw_only=True)
class StageSpec:
    """The operators of a stage, and the layouts of its input and output rows."""

    operators: tuple[OperatorSpec, ...]
    inputs: TaggedRows | None = None
    """None: the stage has one input, whose rows have no tag."""

    @property
    def parts(self) -> list[tuple[int, int]]:
        """The outputs of the stage: the index of an operator, and the number of its output."""
        return [
            (position, number)
            for position, spec in enumerate(self.operators)
            for number in range(spec.output_type is None, len(spec.side_outputs) + 1)
        ]

    @property
    def outputs(self) -> TaggedRows | None:
        """The layout of the output rows; None: they have no tag, because there is one output."""
        parts = [self._columns(*part) for part in self.parts]
        return TaggedRows.of(parts) if len(parts) > 1 else None

    @property
    def output_fields(self) -> tuple[Field, ...]:
        """Columns of the output rows."""
        tagged = self.outputs
        if tagged is not None:
            return tagged.fields
        return next((self._columns(*part) for part in self.parts), _NO_OUTPUT)

    def _columns(self, position: int, number: int) -> tuple[Field, ...]:
        spec = self.operators[position]
        return spec.side_output_fields(number - 1) if number else spec.output_fields


@functools.cache
def _freeze_imported_objects() -> None:
    """Excludes the objects that exist at the process's first task from garbage collection.

    Spark collects all garbage after each task, which can cost more than the task. The result is
    cached because `gc.get_freeze_count` walks all frozen objects.
    """
    gc.freeze()


@dataclass(frozen=True)
class StageTask:
    """A stage in a Spark task, from input batches to output batches.

    The state of all operators is prepared after the consumer has read the last output. If the
    consumer stops early, the state stays unprepared and the coordinator reports that at the
    commit. Therefore the consumer is a shuffle, which reads all outputs unless Spark cancels the
    task.
    """

    spec: StageSpec

    def __call__(
        self,
        batches: Iterator[pa.RecordBatch],
        task: TaskIdentity,
        backend_address: str | Callable[[], str],
    ) -> Generator[pa.RecordBatch, None, None]:
        """Runs with the state server of this executor.

        `backend_address` is its HOST:PORT, or a function that returns it and may restart the
        server; the function is called whenever an owner has to be located.
        """
        # gRPC must not be imported before Spark forks its workers.
        from queryable_state.streaming.runtime.backend_client import BackendClient
        from queryable_state.streaming.runtime.joint_calls import JointCalls

        if any(isinstance(each.operator, _ROW_OPERATORS) for each in self.spec.operators):
            # While the task runs, nothing else runs in this worker process. At the default
            # thresholds hundreds of thousands of rows trigger useless collections.
            gc.set_threshold(*_GC_THRESHOLDS)
        _freeze_imported_objects()
        clients = [BackendClient(spec, task, backend_address) for spec in self.spec.operators]
        of_uid = {spec.uid: each for spec, each in zip(self.spec.operators, clients, strict=True)}
        joint = JointCalls(clients) if len(clients) > 1 else None
        yield from self.run(batches, task, lambda spec: of_uid[spec.uid], joint)

    def run(
        self,
        batches: Iterable[pa.RecordBatch],
        task: TaskIdentity,
        access: Callable[[OperatorSpec], StateAccess],
        joint: JointAccess | None = None,
    ) -> Generator[pa.RecordBatch, None, None]:
        """Runs with any implementation of state access."""
        for spec in self.spec.operators:
            _check_identity(spec, task)
        with ExitStack() as stack:
            runs = [
                stack.enter_context(_run_of(spec, task, access(spec)))
                for spec in self.spec.operators
            ]
            feeds = [stack.enter_context(OperatorFeed(run)) for run in runs]
            for run in runs:
                run.open()
            if joint is not None:
                joint.begin(
                    [None if run.owned.is_begun else run.owned.registrations() for run in runs]
                )
            for run in runs:
                run.begin()
            for position, run in enumerate(runs):
                for fired in run.fire_timers():
                    yield self._tagged(position, fired)
            for output in self._outputs(feeds, self._inputs(batches)):
                yield self._tagged(*output)
            for run in runs:
                run.encode()
        if joint is not None:
            joint.prepare([(run.changes.blocks, run.changes.seal) for run in runs])
        for run in runs:
            run.prepare()

    def _inputs(self, batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
        """The rows of each input of the stage, with its index."""
        tagged = self.spec.inputs
        for batch in batches:
            if batch.num_rows:
                yield from [(0, batch)] if tagged is None else tagged.split(batch)

    def _outputs(
        self, feeds: Sequence[OperatorFeed], inputs: Iterator[tuple[int, pa.RecordBatch]]
    ) -> Iterator[tuple[int, Output]]:
        """The outputs of the operators, each with the operator's index."""
        for place, batch in inputs:
            for position, feed in enumerate(feeds):
                for output in feed.add(place, batch):
                    yield position, output
        for position, feed in enumerate(feeds):
            for output in feed.finish():
                yield position, output

    def _tagged(self, position: int, output: Output) -> pa.RecordBatch:
        number, batch = output
        tagged = self._layout
        return batch if tagged is None else tagged.tagged(self._part[position, number], batch)

    @functools.cached_property
    def _layout(self) -> TaggedRows | None:
        return self.spec.outputs

    @functools.cached_property
    def _part(self) -> dict[tuple[int, int], int]:
        return {part: index for index, part in enumerate(self.spec.parts)}


_ROW_OPERATORS = (
    KeyedProcess,
    KeyedCoProcess,
    KeyedBroadcastProcess,
    BroadcastProcess,
    UnkeyedStep,
    Reduce,
    ReducingSink,
    WindowOperator,
)


def _run_of(spec: OperatorSpec, task: TaskIdentity, access: StateAccess) -> OperatorRun:
    match spec.operator:
        case KeyedProcess(function, parts=parts):
            methods = [
                function.handle_initial_state if rows.is_initial else function.process_element
                for rows in spec.inputs
            ]
            make = TimedProcessRun if parts.timers else ProcessRun
            return make(function, methods, spec, task, access, checkpoints=parts.checkpoints)
        case KeyedCoProcess(function, parts=parts):
            methods = [function.process_element1, function.process_element2]
            make = TimedProcessRun if parts.timers else ProcessRun
            return make(function, methods, spec, task, access, checkpoints=parts.checkpoints)
        case KeyedBatchProcess(function):
            return BatchProcessRun(function, spec, task, access)
        case KeyedBroadcastProcess(keyed_function, descriptors):
            return BroadcastRun(keyed_function, descriptors, spec, task, access, keyed=True)
        case BroadcastProcess(plain_function, descriptors):
            return BroadcastRun(plain_function, descriptors, spec, task, access, keyed=False)
        case UnkeyedStep() as unkeyed:
            return UnkeyedRun(unkeyed, spec, task, access)
        case Reduce(descriptor):
            return ReduceRun(descriptor, spec, task, access, emit=True)
        case ReducingSink(descriptor):
            return ReduceRun(descriptor, spec, task, access, emit=False)
        case LatestValueSink() as sink:
            return LatestValueRun(sink, spec, task, access)
        case Aggregate() as aggregate:
            return AggregateRun(aggregate, spec, task, access)
        case WindowedAggregate() as aggregate_windows:
            return WindowedAggregateRun(aggregate_windows, spec, task, access)
        case WindowOperator() as windows:
            return WindowRun(windows, spec, task, access)
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
