"""Facts of incidents, and the findings that name them."""

from __future__ import annotations

import pytest
from tests.coordinator.status.situations import NOW_MS, codes, failed, situation

from queryable_state.server.coordinator.model.commits import Commit
from queryable_state.server.coordinator.status.findings.findings import findings_of
from queryable_state.server.coordinator.status.findings.job_pace import Pace
from queryable_state.server.coordinator.status.findings.situation import health_of
from queryable_state.server.coordinator.status.job_facts import BatchHistory, DamagedFile, FactTable
from queryable_state.server.coordinator.status.reports import BatchReport, RunFailure
from queryable_state.v1 import registration_pb2, status_pb2

HEALTH = registration_pb2.JobInfo.Health
QUERY = bytes(16)


def test_a_job_with_no_facts_against_it_is_healthy() -> None:
    assert not findings_of(situation())
    assert health_of(situation(), []) == HEALTH.Value("HEALTHY")


def test_a_stuck_watermark_names_the_idle_input() -> None:
    description = status_pb2.JobDescription(
        watermark=status_pb2.Watermark(
            watermark_ms=NOW_MS - 90_000, moved_at_ms=NOW_MS - 45_000, rows_since=10
        ),
        sources=[
            status_pb2.SourceStatus(description="busy", last_rows_at_ms=NOW_MS - 100),
            status_pb2.SourceStatus(description="quiet", last_rows_at_ms=NOW_MS - 60_000),
        ],
    )
    [finding] = findings_of(situation(description))
    assert finding.code == "WATERMARK_STUCK"
    assert "input 1 (quiet) has had no rows for 60 s" in finding.message
    assert "busy" not in finding.message
    description.watermark.rows_since = 0
    assert not findings_of(situation(description))


def test_failing_and_old_checkpoints_and_damaged_files_are_found() -> None:
    description = status_pb2.JobDescription(
        checkpoints=status_pb2.CheckpointStatus(
            durable=True,
            interval_ms=10_000,
            failures_in_a_row=2,
            last_failure="no space left",
            last_completed=status_pb2.CheckpointSummary(batch_id=1, at_ms=NOW_MS - 300_000),
        ),
        last_batch=status_pb2.BatchTimes(batch_id=9, running_batch_id=-1),
    )
    damaged = [DamagedFile(NOW_MS, "/root/chk-3/file", "wrong checksum")]
    found = situation(description, damaged=damaged, committed_at_ms=NOW_MS)
    assert codes(found) == ["CHECKPOINT_DAMAGED", "CHECKPOINT_FAILING", "CHECKPOINT_OLD"]
    texts = " ".join(finding.message for finding in findings_of(found))
    assert "no space left" in texts
    assert "/root/chk-3/file" in texts


def test_a_batch_that_takes_much_longer_than_the_others_is_found() -> None:
    batch = status_pb2.BatchTimes(batch_id=6, running_batch_id=7, running_since_ms=NOW_MS - 40_000)
    description = status_pb2.JobDescription(last_batch=batch)
    assert codes(situation(description, pace=Pace(usual_batch_ms=2_000))) == ["BATCH_SLOW"]
    assert not codes(situation(description, pace=Pace(usual_batch_ms=30_000)))


def test_failures_are_counted_once_a_run_and_end_with_a_commit() -> None:
    facts = FactTable(lambda: NOW_MS)
    for run in (b"1" * 16, b"1" * 16, b"2" * 16):
        facts.run_failed(QUERY, run, RunFailure(message="ValueError: no", batch_id=3))
    with facts.lock:
        [error] = facts.of(QUERY).errors
        assert (error.count, error.batch_id) == (2, 3)
        assert facts.of(QUERY).failing_since_ms == NOW_MS
    facts.published(QUERY, Commit(3, NOW_MS - 20, 5))
    with facts.lock:
        known = facts.of(QUERY)
        assert not known.failing_since_ms
        assert known.commit_ms[3] == 20


@pytest.mark.parametrize(
    ("batch_id", "committed", "after_ms", "is_over"),
    [
        (3, 2, -20, False),
        (3, 3, 1000, True),
        (3, 4, 1000, True),
        (-1, 2, -20, False),
        (-1, 3, 1000, True),
    ],
    ids=[
        "the batch before is published late",
        "the failed batch commits",
        "a later batch commits",
        "a batch committed before the failure is published late",
        "a batch commits after the failure",
    ],
)
def test_a_failure_is_over_once_a_batch_commits_that_it_would_have_prevented(
    batch_id: int, committed: int, after_ms: int, *, is_over: bool
) -> None:
    facts = FactTable(lambda: NOW_MS)
    facts.run_failed(QUERY, b"1" * 16, RunFailure(message="ValueError: no", batch_id=batch_id))
    facts.file_damaged(QUERY, "/root/chk-3/file", "wrong checksum")
    facts.published(QUERY, Commit(committed, NOW_MS + after_ms, 5))
    with facts.lock:
        known = facts.of(QUERY)
        assert (known.failing_since_ms == 0) == is_over
        assert (not known.damaged) == is_over
        description = failed(message="ValueError: no", batch_id=batch_id)
        now = situation(
            description, failing_since_ms=known.failing_since_ms, damaged=tuple(known.damaged)
        )
    assert (not findings_of(now)) == is_over
    assert description.errors


def test_a_failure_after_a_recovery_is_the_first_in_a_row() -> None:
    facts = FactTable(lambda: NOW_MS)
    for run in (b"1" * 16, b"2" * 16):
        facts.run_failed(QUERY, run, RunFailure(message="ValueError: no", batch_id=3))
    facts.published(QUERY, Commit(3, NOW_MS, 5))
    facts.run_failed(QUERY, b"3" * 16, RunFailure(message="ValueError: no", batch_id=3))
    with facts.lock:
        assert [error.count for error in facts.of(QUERY).errors] == [1, 2]


def test_a_failure_with_a_reason_replaces_what_the_engine_said_of_the_same_run() -> None:
    """A description between the end of a run and the report of its cause records a bare text."""
    facts = FactTable(lambda: NOW_MS)
    cause = RunFailure(message="no checkpoint is intact: /1.sst", reason="CHECKPOINT_FAILED")
    for run in (b"1" * 16, b"2" * 16):
        facts.run_failed(QUERY, run, RunFailure(message="the query has failed"))
        facts.run_failed(QUERY, run, cause)
        facts.run_failed(QUERY, run, RunFailure(message="the query has failed"))
    with facts.lock:
        [error] = facts.of(QUERY).errors
        assert (error.message, error.reason, error.count) == (cause.message, cause.reason, 2)


def test_rows_are_counted_while_the_watermark_stands() -> None:
    facts = FactTable(lambda: NOW_MS)
    facts.published(QUERY, Commit(0, NOW_MS, 5))
    for batch_id in (1, 2, 2):
        facts.batch_reported(
            QUERY,
            BatchReport(
                batch_id=batch_id,
                ended_at_ms=NOW_MS,
                duration_ms=100,
                rows=10,
                input_rows_per_s=1.0,
                processed_rows_per_s=1.0,
            ),
        )
    with facts.lock:
        assert facts.of(QUERY).rows_since == 20
    facts.published(QUERY, Commit(3, NOW_MS, 6))
    with facts.lock:
        assert facts.of(QUERY).rows_since == 0


def test_rows_a_second_are_those_of_the_last_minute() -> None:
    history = BatchHistory()
    assert history.rows_per_s(NOW_MS) == 0
    history.reported(0, NOW_MS, 500, 100)
    assert history.rows_per_s(NOW_MS) == 100
    for number in range(1, 100):
        history.reported(number, NOW_MS + number * 1000, 120, 100)
    now_ms = NOW_MS + 99_000
    assert 110 <= history.rows_per_s(now_ms) <= 130
    assert history.rows_per_s(now_ms + 120_000) == 0


def test_history_is_thinned_and_bounded() -> None:
    history = BatchHistory()
    for batch_id in range(20_000):
        history.committed(batch_id, batch_id * 500, 3, batch_id)
        history.reported(batch_id, batch_id * 500, 2, 40)
    points = list(history.last_hour(20_000 * 500))
    assert len(points) <= 720
    assert points[-1].batch_id == 19_999
    assert {point.rows for point in points} == {20}
    assert [point.batch_id for point in points] == sorted(point.batch_id for point in points)
