"""Findings on failed runs: the cause, whether the job starts again by itself, and what to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.server.coordinator.status.findings.finding import ERROR, WARNING, finding
from queryable_state.server.status_texts import clock_text, count_text
from queryable_state.v1 import registration_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.server.coordinator.status.findings.situation import Situation
    from queryable_state.v1 import status_pb2

_CHECKPOINT_FAILED = "CHECKPOINT_FAILED"
_WRITE_FAILED = "STORAGE_WRITE_FAILED"
# Spark's own writes, to its checkpoint or for a shuffle, have no reason of ours.
_REFUSED = ("No space left on device", "Disk quota exceeded", "Read-only file system")
_BY_HAND = "start the job again with the same checkpoint location"


def failures(situation: Situation) -> Iterator[status_pb2.Finding]:
    """The newest failure, as long as no batch has been committed since.

    Of a batch whose tasks are still tried again, the newest failed attempt.
    """
    description = situation.description
    ended = description.info.status == registration_pb2.FAILED
    if description.HasField("last_error") and (ended or situation.failing_since_ms):
        error = description.last_error
        times = f" ({count_text(error.count, 'run')} in a row)" if error.count > 1 else ""
        restarts = situation.restarts_itself or not ended
        failure = _Failure(
            error=error,
            what=f"The job {_state(situation, is_down=ended)}{times}",
            restarts=restarts,
            otherwise="JOB_RESTARTING" if restarts else "JOB_FAILED",
        )
        since_ms = situation.failing_since_ms or error.at_ms
        yield _finding(situation, failure, ERROR, since_ms)
    elif situation.attempt is not None and situation.is_running:
        error = situation.attempt
        times = f"{count_text(error.count, 'attempt')} at a task of the job failed"
        failure = _Failure(
            error=error,
            what=f"{times}, and Spark tries again until its limit (spark.task.maxFailures)",
            restarts=situation.restarts_watched,
            otherwise="TASK_FAILING",
        )
        yield _finding(situation, failure, WARNING, situation.attempts_since_ms)


@dataclass(frozen=True, kw_only=True)
class _Failure:
    error: status_pb2.JobError
    what: str
    """What failed, as the beginning of a sentence."""
    restarts: bool
    """The job goes on by itself."""
    otherwise: str
    """The code, if the error is of no kind with advice of its own."""


def _finding(
    situation: Situation,
    failure: _Failure,
    severity: status_pb2.Finding.Severity.ValueType,
    since_ms: int,
) -> status_pb2.Finding:
    """The finding on an error: its kind tells what to do."""
    description = situation.description
    error, what, restarts = failure.error, failure.what, failure.restarts
    at = f" at batch {error.batch_id}" if error.batch_id >= 0 else ""
    aside = f",{at}" if at else ""
    refused = description.checkpoints.last_failure
    if error.record:
        code = "POISON_RECORD"
        where = f" in operator {error.operator}" if error.operator else ""
        key = f", key {error.key_json}" if error.key_json else ""
        message = (
            f"{what}: its function fails{at}{where}{key}, at the record {error.record}: "
            f"{error.message}"
        )
        step = (
            "Correct the record at the source: each restart repeats the batch. Or let the "
            "function skip such a record or send it to a side output: cancel the job, and start "
            "the changed program with the same checkpoint location."
            if restarts
            else "Let the function skip such a record or send it to a side output, or correct it "
            f"at the source; then {_BY_HAND}, which repeats the batch."
        )
    elif error.reason == _WRITE_FAILED or _is_refused_write(error):
        code = "STORAGE_NOT_WRITABLE"
        message = f"{what}{aside}, because a write was refused: {error.message}"
        then = "the job goes on by itself" if restarts else _BY_HAND
        step = (
            "Free space or quota, or allow this user to write, at the path named here; without "
            "one at Spark's checkpoint location and local directories. Then "
            f"{then}. Nothing that was written is damaged, and no backup is needed."
        )
    elif error.reason == _CHECKPOINT_FAILED and not (refused and refused in error.message):
        code = "CHECKPOINT_DAMAGED"
        message = f"{what}{aside}: {error.message}"
        step = (
            "Put the files named here back from a backup, or start the job from a savepoint or an "
            f"older checkpoint: `queryable-state checkpoints {description.checkpoints.root}` lists "
            "and verifies what is there."
        )
    else:
        code = failure.otherwise
        message = f"{what}{aside}: {error.message}"
        then = (
            "a restart continues after the newest committed batch"
            if restarts
            else "a start with the same checkpoint location continues after the newest committed "
            "batch"
        )
        step = f"Remove this cause; `queryable-state errors JOB` shows the whole error, and {then}."
    return finding(code, severity, since_ms, message, step)


def _is_refused_write(error: status_pb2.JobError) -> bool:
    return not error.reason and any(words in error.message for words in _REFUSED)


def _state(situation: Situation, *, is_down: bool) -> str:
    if situation.restart_at_ms > situation.now_ms:
        return f"failed and is started again by itself at {clock_text(situation.restart_at_ms)}"
    if situation.restart_at_ms:
        return "failed and is being started again by itself"
    if is_down and situation.restarts_watched:
        return "failed, and its restart strategy decides now when it is started again"
    if is_down:
        return "has failed and is not started again"
    return "failed and was started again; it has committed no batch since"
