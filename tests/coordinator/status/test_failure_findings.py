"""Findings on failed runs, by cause, and by who starts the job again."""

from __future__ import annotations

import errno
import os
from typing import Any

import pytest
from tests.coordinator.status.situations import NOW_MS, codes, failed, situation

from queryable_state.server.checkpoint.file_systems.storage_errors import translating
from queryable_state.server.coordinator.model.commits import Commit
from queryable_state.server.coordinator.status.findings.findings import findings_of
from queryable_state.server.coordinator.status.findings.situation import health_of
from queryable_state.server.coordinator.status.job_facts import FactTable
from queryable_state.server.coordinator.status.reports import RunFailure
from queryable_state.v1 import registration_pb2, status_pb2
from queryable_state.wire.errors import CheckpointError

HEALTH = registration_pb2.JobInfo.Health
QUERY = bytes(16)


@pytest.mark.parametrize(
    ("status", "facts", "health", "code"),
    [
        (registration_pb2.FAILED, {"failing_since_ms": 1}, "FAILING", "JOB_FAILED"),
        (registration_pb2.FAILED, {"restart_at_ms": NOW_MS}, "RESTARTING", "JOB_RESTARTING"),
        (registration_pb2.RUNNING, {"failing_since_ms": 1}, "RESTARTING", "JOB_RESTARTING"),
    ],
)
def test_a_failed_run_is_never_healthy(
    status: registration_pb2.JobStatus.ValueType, facts: dict[str, int], health: str, code: str
) -> None:
    found = situation(failed(message="ValueError: no"), status=status, **facts)
    [finding] = findings = findings_of(found)
    assert finding.code == code
    assert "ValueError: no" in finding.message
    assert finding.next_step
    assert health_of(found, findings) == HEALTH.Value(health)


def test_a_poison_record_is_named_with_its_operator_and_key() -> None:
    error = failed(
        message="process_element failed: KeyError: 3",
        operator="count",
        key_json='"sensor_1"',
        record="Row(id=7)",
        count=4,
    )
    [finding] = findings_of(situation(error, failing_since_ms=5))
    assert finding.code == "POISON_RECORD"
    for part in ("batch 3", "operator count", '"sensor_1"', "Row(id=7)", "4 runs in a row"):
        assert part in finding.message
    assert "side output" in finding.next_step


def test_a_run_that_finds_no_intact_checkpoint_names_its_files_and_what_to_do() -> None:
    error = failed(message="no checkpoint is intact: /state/1.sst", reason="CHECKPOINT_FAILED")
    [finding] = findings_of(situation(error, failing_since_ms=5))
    assert (finding.code, finding.severity) == ("CHECKPOINT_DAMAGED", status_pb2.Finding.ERROR)
    assert "/state/1.sst" in finding.message
    assert "backup" in finding.next_step


def test_a_run_that_failed_because_its_checkpoints_did_is_not_told_to_need_a_backup() -> None:
    error = failed(message="stopped, the last one: no space left", reason="CHECKPOINT_FAILED")
    error.checkpoints.failures_in_a_row = 1
    error.checkpoints.last_failure = "no space left"
    [restarting, failing] = findings_of(situation(error, failing_since_ms=5))
    assert (restarting.code, failing.code) == ("JOB_RESTARTING", "CHECKPOINT_FAILING")
    assert "has room" in failing.next_step


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES])
def test_a_refused_write_is_no_damage(number: int) -> None:
    with pytest.raises(CheckpointError) as refusal, translating("/root/chk-1", "write"):
        raise OSError(number, os.strerror(number))
    error = failed(message=refusal.value.message, reason=refusal.value.reason_name)
    [finding] = findings_of(situation(error, failing_since_ms=5))
    assert (finding.code, finding.severity) == ("STORAGE_NOT_WRITABLE", status_pb2.Finding.ERROR)
    assert "cannot write /root/chk-1" in finding.message
    assert os.strerror(number) in finding.message
    for part in ("Free space", "Nothing that was written is damaged", "goes on by itself"):
        assert part in finding.next_step


@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO])
def test_a_refused_read_is_damage(number: int) -> None:
    with pytest.raises(CheckpointError) as refusal, translating("/root/chk-1", "read"):
        raise OSError(number, os.strerror(number))
    error = failed(message=refusal.value.message, reason=refusal.value.reason_name)
    assert codes(situation(error, failing_since_ms=5)) == ["CHECKPOINT_DAMAGED"]


def test_a_refusal_that_failed_the_run_is_told_once() -> None:
    error = failed(message="no checkpoint is intact: /1.sst", reason="CHECKPOINT_FAILED")
    failing = situation(error, failing_since_ms=5, refusal="no checkpoint is intact: /1.sst")
    assert codes(failing) == ["CHECKPOINT_DAMAGED"]
    assert codes(situation(refusal="batch 7 is incomplete")) == ["RUN_REFUSED"]


@pytest.mark.parametrize(
    ("facts", "code", "state", "health"),
    [
        ({}, "JOB_FAILED", "is not started again", "FAILING"),
        ({"restarts_watched": True}, "JOB_RESTARTING", "restart strategy decides", "RESTARTING"),
        (
            {"restarts_watched": True, "restart_at_ms": NOW_MS + 9_000},
            "JOB_RESTARTING",
            "is started again by itself at 2023-11-14 22:13:29Z",
            "RESTARTING",
        ),
        (
            {"restarts_watched": True, "restart_at_ms": NOW_MS - 9_000},
            "JOB_RESTARTING",
            "is being started again by itself",
            "RESTARTING",
        ),
    ],
    ids=["no restart", "undecided", "waiting", "starting"],
)
def test_a_job_that_restarts_by_itself_is_not_to_be_started_by_hand(
    facts: dict[str, Any], code: str, state: str, health: str
) -> None:
    causes: tuple[dict[str, Any], ...] = (
        {},
        {"record": "Row(id=7)"},
        {"reason": "STORAGE_WRITE_FAILED"},
    )
    for cause in causes:
        failure = failed(message="no", **cause)
        down = situation(failure, status=registration_pb2.FAILED, failing_since_ms=5, **facts)
        [finding] = findings = findings_of(down)
        if not cause:
            assert finding.code == code
        assert state in finding.message
        assert "start the job again" not in finding.next_step or not facts
        assert health_of(down, findings) == HEALTH.Value(health)


def test_a_refusal_of_a_watched_job_leaves_the_start_to_its_strategy() -> None:
    [by_hand] = findings_of(situation(refusal="batch 7 is incomplete"))
    [by_itself] = findings_of(situation(refusal="batch 7 is incomplete", restarts_watched=True))
    assert "start the job again" in by_hand.next_step
    assert "restart strategy decides" in by_itself.next_step


def attempt(**fields: Any) -> status_pb2.JobError:
    known: dict[str, Any] = {"batch_id": 3, "run_id": b"1" * 16, "message": "ValueError: no"}
    return status_pb2.JobError(**(known | fields))


@pytest.mark.parametrize(
    ("cause", "code"),
    [
        ({"record": "Row(t=-273.5)", "operator": "counts"}, "POISON_RECORD"),
        ({"reason": "STORAGE_WRITE_FAILED"}, "STORAGE_NOT_WRITABLE"),
        ({}, "TASK_FAILING"),
    ],
)
def test_a_failing_attempt_is_told_while_spark_tries_again(
    cause: dict[str, Any], code: str
) -> None:
    failing = attempt(count=2, **cause)
    [finding] = findings_of(situation(attempt=failing, attempts_since_ms=5))
    assert (finding.code, finding.since_ms) == (code, 5)
    assert finding.severity == status_pb2.Finding.WARNING
    assert "2 attempts at a task of the job failed, and Spark tries again" in finding.message
    assert "at batch 3" in finding.message


def test_a_failed_run_takes_over_the_finding_of_its_attempts() -> None:
    now_ms = 1_000
    facts = FactTable(lambda: now_ms)
    facts.attempt_failed(QUERY, attempt())
    now_ms = 2_000
    facts.attempt_failed(QUERY, attempt())
    with facts.lock:
        known = facts.of(QUERY)
        assert known.attempt is not None
        assert (known.attempt.count, known.attempts_since_ms) == (2, 1_000)
    facts.run_failed(QUERY, b"1" * 16, RunFailure(message="ValueError: no", batch_id=3))
    with facts.lock:
        assert facts.of(QUERY).attempt is None
        assert facts.of(QUERY).failing_since_ms == 1_000


@pytest.mark.parametrize(("committed", "is_over"), [(2, False), (3, True)])
def test_a_failing_attempt_is_over_with_the_commit_of_its_batch(
    committed: int, *, is_over: bool
) -> None:
    facts = FactTable(lambda: 1_000)
    facts.attempt_failed(QUERY, attempt())
    facts.published(QUERY, Commit(committed, 900, 5))
    with facts.lock:
        assert (facts.of(QUERY).attempt is None) == is_over
    # A late report of a batch that is committed.
    facts.attempt_failed(QUERY, attempt(batch_id=committed))
    with facts.lock:
        known = facts.of(QUERY).attempt
        assert (known is None) if is_over else (known is not None and known.batch_id == 3)


def test_a_write_of_sparks_own_that_is_refused_is_not_a_failure_of_the_job() -> None:
    message = "org.apache.hadoop.fs.FSError: java.io.IOException: No space left on device"
    [finding] = findings_of(situation(failed(message=message), failing_since_ms=5))
    assert finding.code == "STORAGE_NOT_WRITABLE"
    assert "Spark's checkpoint location" in finding.next_step
