"""Identity of a task, and the part of an operator's specification that its states need."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.streaming.runtime.states.settings import RuntimeSettings
from queryable_state.wire.errors import JobError, Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.streaming.descriptors import StateDescriptor
    from queryable_state.streaming.runtime.states.input_spec import InputSpec
    from queryable_state.v1.registration_pb2 import StateRegistration
    from queryable_state.wire.schema.types import TypeInfo


@dataclass(frozen=True, kw_only=True)
class TaskIdentity:
    """One attempt at one subtask of one batch; read from Spark's task context."""

    query_id: bytes
    """16 bytes: id of the Spark query, which is the job's id."""
    run_id: bytes
    """16 bytes: id of the run of the query."""
    batch_id: int
    """From 0. A negative id means that Spark gave the task none; the task is refused."""
    subtask: int
    """0 to parallelism - 1: the shuffle partition."""
    task_attempt: int
    """Spark's task attempt id, unique within the SparkContext."""


@dataclass(frozen=True, kw_only=True)
class StateSpec:
    """The keys, the parallelism and the limits of one stateful operator."""

    uid: str
    """Identity of the operator's state within the query."""
    name: str
    """Operator name for people."""
    depth: int
    """Stateful operators between the source and this one; 0 for the first."""
    parallelism: int
    max_parallelism: int
    """Number of key groups."""
    job_name: str = ""
    inputs: tuple[InputSpec, ...]
    """All keys have the same type and number of columns."""
    key_type: TypeInfo
    """Type of the only key column; for several columns a ROW or TUPLE with one field per column."""
    settings: RuntimeSettings = field(default_factory=RuntimeSettings)

    @property
    def input(self) -> InputSpec:
        """The first keyed input, else the first one; the only input of most operators."""
        return next((each for each in self.inputs if each.key_columns), self.inputs[0])

    def registrations(
        self, descriptors: Iterable[StateDescriptor], task: TaskIdentity
    ) -> list[StateRegistration]:
        """The registrations of states of the operator."""
        return [
            descriptor.to_registration(
                job_id=task.query_id,
                job_name=self.job_name,
                operator_uid=self.uid,
                operator_name=self.name,
                operator_depth=self.depth,
                key_type=self.key_type,
                max_parallelism=self.max_parallelism,
            )
            for descriptor in descriptors
        ]


def where(spec: StateSpec, task: TaskIdentity) -> str:
    """Operator, subtask and batch for error texts."""
    return (
        f"operator {spec.name!r} (uid {spec.uid}), subtask {task.subtask} of {spec.parallelism}, "
        f"batch {task.batch_id}"
    )


def subtask_mismatch(what: str) -> JobError:
    """The refusal of a task whose partition id is not its subtask."""
    return JobError(
        f"{what}. The batch is refused, because its state would go to the wrong subtask. Spark "
        "changes partition ids where coalesce() or union() are in the stage of the operator: call "
        "repartition() directly behind the operator",
        reason=Reason.SUBTASK_MISMATCH,
    )
