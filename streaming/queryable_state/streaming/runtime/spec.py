"""What a task is told: which operator it runs, and which part of which batch it is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.streaming.runtime.settings import RuntimeSettings
from queryable_state.wire.errors import JobError, Reason
from queryable_state.wire.schema.types import Field, Kind, TypeInfo

if TYPE_CHECKING:
    from queryable_state.streaming.runtime.columns.row_order import OrderColumn
    from queryable_state.streaming.runtime.operators.operators import Operator

VALUE_COLUMN = "value"
"""The one column of a stream whose elements are not rows."""


@dataclass(frozen=True, kw_only=True)
class TaskIdentity:
    """One attempt at one subtask of one batch; read from Spark's task context."""

    query_id: bytes
    """16 bytes: id of the Spark query, which is the job's id."""
    run_id: bytes
    """16 bytes: id of the run of the query."""
    batch_id: int
    """From 0. Below 0 (Spark told none) the task is refused."""
    subtask: int
    """0 to parallelism - 1: the shuffle partition."""
    task_attempt: int
    """Spark's task attempt id, unique within the SparkContext."""


@dataclass(frozen=True, kw_only=True)
class OperatorSpec:
    """One stateful operator as the driver compiled it; pickled into each task."""

    uid: str
    """Identity of its state within the query."""
    name: str
    """For people."""
    depth: int
    """Stateful operators between the source and this one."""
    parallelism: int
    max_parallelism: int
    """Number of key groups."""
    job_name: str = ""
    key_columns: tuple[str, ...]
    """Input columns of the key. One column is a bare key, several make a tuple."""
    key_type: TypeInfo
    """Type of the one key column; of several a ROW or TUPLE with a field a column, in order."""
    check_column: str
    """Input column (long) with the row's check, see `row_check`, computed by the JVM."""
    value_columns: tuple[str, ...]
    """Input columns of the element, in order. A column may be a key column too."""
    value_type: TypeInfo
    """A ROW with a field for each value column; else the type of the one value column."""
    order: tuple[OrderColumn, ...] = ()
    """What the rows of a batch are ordered by before the operator sees them; empty: they come
    as they arrive."""
    split_column: str = ""
    """Input column (int) with the number of a row's input partition, which decides between rows
    that are equal in the order; empty: there is none."""
    operator: Operator
    """What is done with the elements; an object of `runtime.operators`."""
    output_type: TypeInfo | None
    """None: no output. A ROW's fields are the output columns; else one column `value`."""
    secret: str
    """Of the job, for every call to a state server."""
    coordinator_address: str = ""
    config_id: str = ""
    """The configuration the driver gave the coordinator for the operator's job; empty: none."""
    settings: RuntimeSettings = field(default_factory=RuntimeSettings)

    @property
    def output_fields(self) -> tuple[Field, ...]:
        """Columns the operator puts out; of a sink, which puts out no row, one unused column."""
        if self.output_type is None:
            return (Field(VALUE_COLUMN, TypeInfo(Kind.BOOLEAN)),)
        if self.output_type.kind == Kind.ROW:
            return self.output_type.fields
        return (Field(VALUE_COLUMN, self.output_type),)


def subtask_mismatch(what: str) -> JobError:
    """The refusal of a task that takes itself for another subtask than it is."""
    return JobError(
        f"{what}. The batch is refused, because its state would go to the wrong subtask. Spark "
        "changes partition ids where coalesce() or union() are in the stage of the operator: call "
        "repartition() directly behind the operator",
        reason=Reason.SUBTASK_MISMATCH,
    )
