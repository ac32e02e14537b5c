"""Which query, batch and attempt a Spark task belongs to."""

from __future__ import annotations

import uuid

from pyspark import TaskContext

from queryable_state.streaming.runtime.spec import TaskIdentity
from queryable_state.wire.errors import JobError, Reason

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"
# The run has no property of its own; Spark names the job group of a stream's thread after it.
_RUN_ID = "spark.jobGroup.id"


def task_identity(operator: str) -> TaskIdentity:
    """The identity of the task this process is running."""
    context = TaskContext.get()
    if context is None:
        raise _missing(operator, "no Spark task is running")
    query_id, batch_id, run_id = (
        context.getLocalProperty(name) for name in (_QUERY_ID, _BATCH_ID, _RUN_ID)
    )
    if not query_id or not batch_id:
        raise _missing(operator, f"Spark told {_QUERY_ID}={query_id}, {_BATCH_ID}={batch_id}")
    try:
        run = uuid.UUID(run_id or "")
    except ValueError:
        raise _missing(
            operator,
            f"its job group is {run_id!r} and not the run of a query, so setJobGroup() was called "
            "in foreachBatch; use addJobTag() there",
        ) from None
    return TaskIdentity(
        query_id=uuid.UUID(query_id).bytes,
        run_id=run.bytes,
        batch_id=int(batch_id),
        subtask=context.partitionId(),
        task_attempt=context.taskAttemptId(),
    )


def _missing(operator: str, what: str) -> JobError:
    return JobError(
        f"operator {operator!r} runs outside a batch of a streaming query ({what}): its state is "
        "written by batch. Start the stream with writeStream or env.execute(); in foreachBatch use "
        "pyspark.InheritableThread for threads of your own",
        reason=Reason.MISSING_BATCH_ID,
    )
