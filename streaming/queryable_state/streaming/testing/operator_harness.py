"""Base of the harnesses: one operator in the real stage, run batch by batch as Spark's tasks."""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from queryable_state.streaming.runtime.columns.tagged_rows import TaggedRows
from queryable_state.streaming.runtime.operators.operator_run import MAIN
from queryable_state.streaming.runtime.operators.spec import OperatorSpec, columns_of
from queryable_state.streaming.runtime.stage import StageSpec, StageTask
from queryable_state.streaming.runtime.stateless.elements import ElementReader
from queryable_state.streaming.runtime.states.settings import RuntimeSettings
from queryable_state.streaming.runtime.states.state_spec import TaskIdentity
from queryable_state.streaming.testing.committed_state import CommittedState
from queryable_state.streaming.testing.in_memory_state import InMemoryStateBackend
from queryable_state.streaming.testing.side_rows import SideRows
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.keys.timer_keys import Clock
from queryable_state.wire.schema.types import Kind, TypeInfo, type_info

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    import pyarrow as pa

    from queryable_state.streaming.runtime.operators.operators import Operator
    from queryable_state.streaming.runtime.states.access import StateAccess
    from queryable_state.streaming.stateless.output_tag import OutputTag
    from queryable_state.streaming.testing.harness_input import HarnessInput
    from queryable_state.streaming.testing.operator_snapshot import OperatorSnapshot
    from queryable_state.wire.keys.time_window import TimeWindow


class StateOwner(Protocol):
    """Backend of a harness's state: in memory or on state servers."""

    query_id: bytes
    run_id: bytes
    secret: str
    timestamp_ms: int
    watermark_ms: int

    def access(self, spec: OperatorSpec, task: TaskIdentity) -> StateAccess:
        """State access of one task attempt."""
        ...

    def commit(self, batch_id: int) -> None:
        """Commits a batch on every subtask."""
        ...

    def rescale(self, spec: OperatorSpec, parallelism: int) -> None:
        """Starts a new run, in which an operator has another parallelism."""
        ...


class OperatorHarness:
    """An operator and its state, run batch by batch on lists of rows.

    `process` of a subclass runs a batch on every subtask and commits it. `run` and `commit` do
    these steps separately; a second `run` before `commit` replays the batch, as Spark may do. As in
    Spark each task has its own copy of the function. The rows of an input are processed in the
    given order, as if from one input partition, or by `order_by`.
    """

    def __init__(
        self,
        operator: Operator,
        inputs: Sequence[HarnessInput],
        *,
        output_type: object = None,
        parallelism: int = 2,
        max_parallelism: int = 128,
        uid: str = "operator",
        name: str = "operator",
        chunk_rows: int = 10_000,
        settings: RuntimeSettings | None = None,
        owner: StateOwner | None = None,
        side_outputs: Sequence[OutputTag] = (),
    ) -> None:
        """`chunk_rows` bounds the rows of an Arrow batch and of a chunk that a task reads; `owner`
        holds the state (None: memory). `side_output` returns the outputs of `side_outputs`."""
        self.backend: StateOwner = InMemoryStateBackend() if owner is None else owner
        self.batch_id = 0
        """The open batch, which the next `run` runs."""
        self._inputs = tuple(inputs)
        self._chunk_rows = chunk_rows
        self._attempts = itertools.count(1)
        keyed = [each for each in inputs if each.spec.key_columns]
        self.spec = OperatorSpec(
            uid=uid,
            name=name,
            depth=0,
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            inputs=tuple(each.spec for each in inputs),
            key_type=keyed[0].key_type if keyed else TypeInfo(Kind.INT),
            operator=operator,
            output_type=None if output_type is None else type_info(output_type),
            side_outputs=tuple(side_outputs),
            secret=self.backend.secret,
            settings=replace(settings or RuntimeSettings(), chunk_rows=chunk_rows),
        )
        self._key_groups = KeyGroups(self.spec.key_type, max_parallelism)
        self._sides = SideRows(side_outputs)
        self._layout = TaggedRows.of([each.columns for each in inputs]) if len(inputs) > 1 else None

    @property
    def timestamp_ms(self) -> int:
        """The processing time of later batches, in milliseconds since the epoch; TTL and timers
        use it."""
        return self.backend.timestamp_ms

    @timestamp_ms.setter
    def timestamp_ms(self, timestamp_ms: int) -> None:
        self.backend.timestamp_ms = timestamp_ms

    @property
    def watermark_ms(self) -> int:
        """The watermark of later batches, in milliseconds since the epoch; 0: no watermark."""
        return self.backend.watermark_ms

    @watermark_ms.setter
    def watermark_ms(self, watermark_ms: int) -> None:
        self.backend.watermark_ms = watermark_ms

    def set_processing_time(self, timestamp_ms: int) -> list[Any]:
        """Sets `timestamp_ms` and runs a batch without rows, in which due timers fire.

        The batch is committed. Returns its outputs.
        """
        self.timestamp_ms = timestamp_ms
        return self._run_without_rows()

    def process_watermark(self, watermark_ms: int) -> list[Any]:
        """Sets `watermark_ms` and runs a batch without rows, in which due timers fire.

        The batch is committed. Returns its outputs.
        """
        self.watermark_ms = watermark_ms
        return self._run_without_rows()

    def num_event_time_timers(self) -> int:
        """Number of the pending event-time timers after the last committed batch."""
        return self._committed("num_event_time_timers").timer_count(Clock.EVENT_TIME)

    def num_processing_time_timers(self) -> int:
        """Number of the pending processing-time timers after the last committed batch."""
        return self._committed("num_processing_time_timers").timer_count(Clock.PROCESSING_TIME)

    def commit(self) -> None:
        """Commits the open batch and opens the next one."""
        self.backend.commit(self.batch_id)
        self.batch_id += 1

    def rescale(self, parallelism: int) -> None:
        """Restarts the operator at another parallelism, from its last committed batch.

        Keyed state moves with its keys, and operator state is redistributed. A batch that has run
        without a commit counts as not run.
        """
        self.backend.rescale(self.spec, parallelism)
        self.spec = replace(self.spec, parallelism=parallelism)

    def snapshot(self) -> OperatorSnapshot:
        """The committed state, for `restore` into a harness with a changed function or another
        parallelism."""
        spec = self.spec
        return self._memory("snapshot").snapshot(spec.uid, spec.parallelism, spec.max_parallelism)

    def restore(self, snapshot: OperatorSnapshot) -> None:
        """Replaces the operator's state; the open batch is the one after the snapshot's."""
        spec = self.spec
        self._memory("restore").restore(spec.uid, snapshot, spec.parallelism, spec.max_parallelism)
        self.batch_id = snapshot.batch_id + 1

    def state(self, name: str, key: Any) -> Any:
        """The committed state of a key: a list for a list state, a dict for a map state; None if
        there is none.

        `name` is the state's name or its queryable name; raises UnknownStateError if no state has
        it.
        """
        return self._committed("state").of_key(name, key, self._key_groups)

    def states(self, name: str) -> dict[Any, Any]:
        """The committed state of every key that has one."""
        return self._committed("states").of_all_keys(name)

    def window_states(self, name: str) -> dict[tuple[Any, TimeWindow], Any]:
        """The committed state of every key and time window that has one."""
        return self._committed("window_states").of_all_windows(name)

    def operator_state(self, name: str, subtask: int) -> Any:
        """The committed operator state of a subtask: a list, or a dict of a broadcast state."""
        return self._committed("operator_state").of_subtask(name, subtask)

    def side_output(self, tag: OutputTag) -> list[Any]:
        """The values that the last `run` or `process` emitted with this tag."""
        return self._sides.of(tag)

    def attempt(
        self, subtask: int, batches: Iterable[pa.RecordBatch]
    ) -> Generator[pa.RecordBatch, None, None]:
        """Runs one task attempt of one subtask of the open batch."""
        spec = replace(self.spec, operator=copy.deepcopy(self.spec.operator))
        task = TaskIdentity(
            query_id=self.backend.query_id,
            run_id=self.backend.run_id,
            batch_id=self.batch_id,
            subtask=subtask,
            task_attempt=next(self._attempts),
        )
        stage = replace(self._stage, operators=(spec,))
        return StageTask(stage).run(batches, task, lambda each: self.backend.access(each, task))

    def _run(self, rows: Sequence[Iterable[Any]], subtasks: Iterable[int] | None) -> list[Any]:
        """Runs the open batch on the rows of each input; returns the outputs."""
        parts = [self._parts(number, of) for number, of in enumerate(rows)]
        outputs: list[Any] = []
        self._sides.clear()
        stage = self._stage
        for subtask in range(self.spec.parallelism) if subtasks is None else subtasks:
            batches = itertools.chain.from_iterable(part[subtask] for part in parts)
            for batch in self.attempt(subtask, batches):
                layout = stage.outputs
                for part, rows_of in [(0, batch)] if layout is None else layout.split(batch):
                    if stage.parts:
                        self._take(stage.parts[part][1], rows_of, outputs)
        return outputs

    def _run_without_rows(self) -> list[Any]:
        outputs = self._run([()] * len(self._inputs), None)
        self.commit()
        return outputs

    def _parts(self, number: int, rows: Iterable[Any]) -> list[list[pa.RecordBatch]]:
        """The batches of one input that each subtask reads."""
        parts = self._inputs[number].batches(
            rows,
            parallelism=self.spec.parallelism,
            max_parallelism=self.spec.max_parallelism,
            most_rows=self._chunk_rows,
        )
        layout = self._layout
        if layout is None:
            return parts
        return [[layout.tagged(number, batch) for batch in part] for part in parts]

    @property
    def _stage(self) -> StageSpec:
        return StageSpec(operators=(self.spec,), inputs=self._layout)

    def _take(self, number: int, batch: pa.RecordBatch, outputs: list[Any]) -> None:
        """Adds the rows of an output to `outputs`, or to those of its side output."""
        if number != MAIN:
            tag = self.spec.side_outputs[number - 1]
            self._sides.add(tag, _elements(batch, tag.type_info))
        elif self.spec.output_type is not None:
            outputs += _elements(batch, self.spec.output_type)

    def _committed(self, method: str) -> CommittedState:
        return CommittedState(self._memory(method), self.spec)

    def _memory(self, method: str) -> InMemoryStateBackend:
        if isinstance(self.backend, InMemoryStateBackend):
            return self.backend
        raise InvalidRequestError(
            f"{method}() needs state in memory, but this harness runs on a local cluster: read its "
            "state with a client"
        )


def _elements(batch: pa.RecordBatch, info: TypeInfo) -> Iterator[Any]:
    """The elements of this type in a batch of their columns."""
    return ElementReader(columns_of(info), info)(batch)
