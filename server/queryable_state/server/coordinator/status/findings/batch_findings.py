"""Findings on jobs that are slow, behind or silent, measured by their own past."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.coordinator.status.findings.finding import WARNING, finding
from queryable_state.server.status_texts import age_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.server.coordinator.status.findings.situation import Situation
    from queryable_state.v1 import status_pb2

_TIMES_USUAL = 5
_LEAST_MS = 2_000
# Of a job whose earlier batches are not known.
_LONG_BATCH_MS = 30_000
_NO_BATCH_MS = 30_000
_BATCHES_BEHIND = 5
_TIMES_PAUSE = 5
_LEAST_PAUSE_MS = 60_000


def batches(situation: Situation) -> Iterator[status_pb2.Finding]:
    """The findings on the pace of a job that runs and does not fail."""
    if not situation.is_running or situation.failing_since_ms:
        return
    yield from _slow(situation)
    yield from _behind(situation)
    yield from _no_batch(situation)
    yield from _silent(situation)


def _slow(situation: Situation) -> Iterator[status_pb2.Finding]:
    batch, pace = situation.description.last_batch, situation.pace
    usual_ms = pace.usual_batch_ms
    slow_ms = max(_LEAST_MS, _TIMES_USUAL * usual_ms) if usual_ms else _LONG_BATCH_MS
    is_running = batch.running_batch_id >= 0 and batch.running_since_ms > 0
    age_ms = situation.now_ms - batch.running_since_ms if is_running else 0
    usual = f"; the batches before took {age_text(usual_ms)}" if usual_ms else ""
    if age_ms >= slow_ms:
        since_ms = batch.running_since_ms
        what = f"Batch {batch.running_batch_id} has been running for {age_text(age_ms)}{usual}"
    elif usual_ms and pace.newest_batch_ms >= slow_ms:
        since_ms = batch.ended_at_ms
        what = f"Each of the newest batches took {age_text(pace.newest_batch_ms)} or more{usual}"
    else:
        return
    yield finding(
        "BATCH_SLOW",
        WARNING,
        since_ms,
        what,
        "Look at its tasks in the Spark UI, and at `queryable-state status JOB` for restores and "
        "lost servers.",
    )


def _behind(situation: Situation) -> Iterator[status_pb2.Finding]:
    pace, description = situation.pace, situation.description
    rates = description.rates
    if pace.batches_behind >= _BATCHES_BEHIND and pace.newest_ms >= _LEAST_MS:
        waiting = "".join(
            f"; {_amount_text(source, source.backlog)} wait in {_input_text(number, source)}"
            for number, source in enumerate(description.sources)
            if source.backlog
        )
        yield finding(
            "JOB_BEHIND",
            WARNING,
            pace.behind_since_ms,
            f"In each of the last {pace.batches_behind} batches more rows arrived than "
            f"the job processes: now {rates.input_rows_per_s:,.0f} a second arrive and "
            f"{rates.processed_rows_per_s:,.0f} a second are processed{waiting}",
            "Add executors or partitions, or look for a hot key with `queryable-state hotkeys "
            "JOB`: the batches get longer until this ends.",
        )
        return
    growing = zip(description.sources, pace.backlogs_since_ms, pace.backlog_peaks, strict=False)
    for number, (source, since_ms, peak) in enumerate(growing):
        if since_ms:
            yield finding(
                "JOB_BEHIND",
                WARNING,
                since_ms,
                f"In {_input_text(number, source)} {_amount_text(source, peak)} waited, and this "
                f"backlog has grown for {age_text(situation.now_ms - since_ms)}: a batch takes no "
                f"more than the limit of this source, and more arrives. "
                f"{rates.processed_rows_per_s:,.0f} rows a second are processed",
                "Raise the limit of the source (maxFilesPerTrigger, maxOffsetsPerTrigger) while "
                "batches are short; else add executors or partitions, or look for a hot key with "
                "`queryable-state hotkeys JOB`.",
            )


def _amount_text(source: status_pb2.SourceStatus, amount: int) -> str:
    # A file source knows the files that it has listed.
    least = "at least " if source.backlog_unit == "files" else ""
    return f"{least}{amount:,} {source.backlog_unit}"


def _input_text(number: int, source: status_pb2.SourceStatus) -> str:
    return f"input {number} ({source.description})"


def _no_batch(situation: Situation) -> Iterator[status_pb2.Finding]:
    description = situation.description
    batch, started_at_ms = description.last_batch, description.info.started_at_ms
    if batch.running_batch_id >= 0 and batch.running_since_ms:
        return
    if batch.batch_id >= 0 or situation.committed_at_ms or not started_at_ms:
        return
    age_ms = situation.now_ms - started_at_ms
    if age_ms >= _NO_BATCH_MS:
        yield finding(
            "NO_BATCH",
            WARNING,
            started_at_ms,
            f"The job has begun no batch since it was started {age_text(age_ms)} ago.",
            "Check that its sources have input, and that Spark has executors for it.",
        )


def _silent(situation: Situation) -> Iterator[status_pb2.Finding]:
    batch = situation.description.last_batch
    if batch.running_batch_id >= 0 and batch.running_since_ms:
        # Its rows are not reported yet.
        return
    sources = situation.description.sources
    for number, (source, pause_ms) in enumerate(
        zip(sources, situation.pace.pauses_ms, strict=False)
    ):
        age_ms = situation.now_ms - source.last_rows_at_ms
        if not pause_ms or age_ms < max(_LEAST_PAUSE_MS, _TIMES_PAUSE * pause_ms):
            continue
        yield finding(
            "SOURCE_SILENT",
            WARNING,
            source.last_rows_at_ms,
            f"Input {number} ({source.description}) has had no rows for {age_text(age_ms)}; its "
            f"longest pause before was {age_text(pause_ms)}",
            "Check that its producer runs, and that the job reads the right topic or folder.",
        )
