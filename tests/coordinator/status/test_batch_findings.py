"""Findings on the pace of a job: slow, behind, silent, as its own past tells."""

from __future__ import annotations

import pytest
from tests.coordinator.status.situations import NOW_MS, codes, situation

from queryable_state.server.coordinator.status.findings.findings import findings_of
from queryable_state.server.coordinator.status.findings.job_pace import JobPace
from queryable_state.server.coordinator.status.reports import BatchReport, SourceReport
from queryable_state.v1 import status_pb2

USUAL = [100, 120, 90, 110, 100, 100, 5_000, 100]


def pace_of(
    durations_ms: list[int], *, rates: tuple[float, float] = (10.0, 10.0), every_ms: int = 1_000
) -> JobPace:
    """The pace after batches of these durations, the newest of which ends now."""
    pace = JobPace()
    for number, duration_ms in enumerate(durations_ms):
        pace.reported(
            BatchReport(
                batch_id=number,
                ended_at_ms=NOW_MS - every_ms * (len(durations_ms) - 1 - number),
                duration_ms=duration_ms,
                rows=10,
                input_rows_per_s=rates[0],
                processed_rows_per_s=rates[1],
                sources=(SourceReport(description="kafka", rows=10, rows_per_s=1.0),),
            )
        )
    return pace


@pytest.mark.parametrize(
    ("durations_ms", "running_ms", "is_slow"),
    [
        (USUAL, 0, False),
        (USUAL, 1_900, False),
        (USUAL, 2_000, True),
        ([*USUAL, 2_100, 2_500, 2_200], 0, True),
        ([*USUAL, 2_100, 2_500, 100], 0, False),
        ([10 * each for each in USUAL], 4_900, False),
        ([10 * each for each in USUAL], 5_000, True),
        ([100, 100], 29_000, False),
        ([100, 100], 30_000, True),
        ([], 30_000, True),
    ],
)
def test_a_batch_is_slow_at_five_times_the_median_of_those_before(
    durations_ms: list[int], running_ms: int, *, is_slow: bool
) -> None:
    batch = status_pb2.BatchTimes(batch_id=9, running_batch_id=-1, ended_at_ms=NOW_MS)
    if running_ms:
        batch.running_batch_id, batch.running_since_ms = 10, NOW_MS - running_ms
    description = status_pb2.JobDescription(last_batch=batch)
    found = situation(description, pace=pace_of(durations_ms).figures())
    assert codes(found) == (["BATCH_SLOW"] if is_slow else [])


@pytest.mark.parametrize(
    ("batches", "batch_ms", "rates", "is_behind"),
    [
        (5, 2_000, (200.0, 100.0), True),
        (4, 2_000, (200.0, 100.0), False),
        (5, 1_900, (200.0, 100.0), False),
        (9, 2_000, (105.0, 100.0), False),
        (9, 2_000, (100.0, 200.0), False),
        (9, 2_000, (0.0, 0.0), False),
    ],
)
def test_a_job_is_behind_if_more_rows_arrive_than_it_processes_for_five_batches(
    batches: int, batch_ms: int, rates: tuple[float, float], *, is_behind: bool
) -> None:
    pace = pace_of([batch_ms] * batches, rates=rates)
    assert codes(situation(pace=pace.figures())) == (["JOB_BEHIND"] if is_behind else [])


def test_a_job_that_catches_up_is_not_behind_any_more() -> None:
    pace = pace_of([2_000] * 9, rates=(200.0, 100.0))
    [finding] = findings_of(situation(pace=pace.figures()))
    assert "last 9 batches" in finding.message
    assert finding.since_ms == NOW_MS - 8_000
    pace.reported(
        BatchReport(
            batch_id=9,
            ended_at_ms=NOW_MS,
            duration_ms=2_000,
            rows=1,
            input_rows_per_s=1.0,
            processed_rows_per_s=2.0,
        )
    )
    assert not findings_of(situation(pace=pace.figures()))


@pytest.mark.parametrize(
    ("every_ms", "batches", "silent_ms", "is_silent"),
    [
        (1_000, 9, 59_000, False),
        (1_000, 9, 60_000, True),
        (1_000, 8, 60_000, False),
        (60_000, 9, 299_000, False),
        (60_000, 9, 300_000, True),
    ],
)
def test_a_source_is_silent_at_five_times_its_longest_pause(
    every_ms: int, batches: int, silent_ms: int, *, is_silent: bool
) -> None:
    source = status_pb2.SourceStatus(description="kafka", last_rows_at_ms=NOW_MS - silent_ms)
    pace = pace_of([100] * batches, every_ms=every_ms)
    found = situation(status_pb2.JobDescription(sources=[source]), pace=pace.figures())
    assert codes(found) == (["SOURCE_SILENT"] if is_silent else [])


def waiting(
    amounts: list[int], unit: str, *, rows: int = 10, every_ms: int = 2_000
) -> tuple[JobPace, status_pb2.JobDescription]:
    """The pace and description after batches with these backlogs, the newest of which ends now."""
    pace = JobPace()
    for number, amount in enumerate(amounts):
        source = SourceReport(
            description="input", rows=rows, rows_per_s=1.0, backlog=amount, backlog_unit=unit
        )
        pace.reported(
            BatchReport(
                batch_id=number,
                ended_at_ms=NOW_MS - every_ms * (len(amounts) - 1 - number),
                duration_ms=500,
                rows=rows,
                input_rows_per_s=5.0,
                processed_rows_per_s=5.0,
                sources=(source,),
            )
        )
    status = status_pb2.SourceStatus(
        description="input", last_rows_at_ms=NOW_MS, backlog=amounts[-1], backlog_unit=unit
    )
    return pace, status_pb2.JobDescription(sources=[status])


@pytest.mark.parametrize(
    ("amounts", "unit", "is_behind"),
    [
        ([100, 200, 300, 400, 500, 600], "rows", True),
        ([100, 200, 300, 400, 500], "rows", False),
        ([100, 200, 150, 300, 250, 400], "rows", True),
        ([900, 800, 700, 600, 500, 400], "rows", False),
        ([900, 850, 880, 700, 750, 500, 510], "rows", False),
        ([100, 200, 300, 400, 500, 600, 0, 0], "rows", False),
        ([100, 200, 300, 400, 500, 600, 290], "rows", False),
        ([1, 2, 3, 4, 5, 6], "rows", False),
        # A file source lists anew once it has read what it knows.
        ([2, 1, 0, 8, 7, 6, 5, 4, 3, 2, 1, 0, 26, 25], "files", True),
        ([2, 1, 0, 8, 7, 6, 5, 4, 3, 2, 1, 0, 26, 3], "files", True),
        ([2, 1, 0, 8, 7, 4, 1, 0, 26, 20, 9, 0, 19, 9, 0, 14], "files", True),
        ([2, 1, 0, 8, 7, 4, 1, 0, 26, 20, 9, 0, 19, 9, 0, 13], "files", False),
        ([2, 1, 0, 8, 7, 4, 1, 0, 26, 20, 9, 0, 0], "files", False),
        ([38, 37, 36, 35, 34, 33, 32, 31], "files", False),
        ([26, 10, 0, 20, 5, 0, 12, 3, 0, 8], "files", False),
        ([2, 0, 0, 2, 0, 0, 3, 0, 0], "files", False),
    ],
)
def test_a_backlog_that_grows_behind_the_limit_of_a_source_is_found(
    amounts: list[int], unit: str, *, is_behind: bool
) -> None:
    pace, description = waiting(amounts, unit)
    found = situation(description, pace=pace.figures())
    assert codes(found) == (["JOB_BEHIND"] if is_behind else [])


def test_a_growing_backlog_names_its_source_and_amount() -> None:
    pace, description = waiting([100, 200, 300, 400, 500, 600], "rows")
    [finding] = findings_of(situation(description, pace=pace.figures()))
    words = "In input 0 (input) 600 rows waited, and this backlog has grown for 10 s"
    assert words in finding.message
    assert finding.since_ms == NOW_MS - 10_000
    assert "maxOffsetsPerTrigger" in finding.next_step
