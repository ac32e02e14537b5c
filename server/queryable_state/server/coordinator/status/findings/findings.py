"""Findings: what is wrong with a job, and what to do, as plain sentences.

Pure rules on the known facts of one job; each returns its findings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.coordinator.status.findings.batch_findings import batches
from queryable_state.server.coordinator.status.findings.failure_findings import failures
from queryable_state.server.coordinator.status.findings.finding import ERROR, WARNING, finding
from queryable_state.server.status_texts import age_text, clock_text, count_text
from queryable_state.v1 import status_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.server.coordinator.status.findings.situation import Situation

# Spark's default trigger and short pauses of a source are shorter.
_STUCK_MS = 30_000
_RECENT_MS = 10 * 60_000
_INTERVALS = 3
_LEAST_AGE_MS = 60_000
_MOST_NAMED = 3


def findings_of(situation: Situation) -> list[status_pb2.Finding]:
    """All findings, most urgent first."""
    rules = (
        failures,
        _refusals,
        _lost_servers,
        _damaged_files,
        batches,
        _watermarks,
        _checkpoints,
    )
    found = [each for rule in rules for each in rule(situation)]
    return most_urgent_first(found)


def most_urgent_first(findings: list[status_pb2.Finding]) -> list[status_pb2.Finding]:
    """The findings, errors before warnings."""
    return sorted(findings, key=lambda each: -each.severity)


def _refusals(situation: Situation) -> Iterator[status_pb2.Finding]:
    is_told = situation.failing_since_ms and (
        situation.refusal == situation.description.last_error.message
    )
    if situation.refusal and situation.is_running and not is_told:
        yield finding(
            "RUN_REFUSED",
            ERROR,
            0,
            f"The coordinator refuses further batches of the job: {situation.refusal}",
            "Follow this error; a restart strategy decides on the next start of the job."
            if situation.restarts_watched
            else "Follow this error, then start the job again with the same checkpoint location.",
        )


def _lost_servers(situation: Situation) -> Iterator[status_pb2.Finding]:
    for departure, now in situation.departures:
        server = departure.server
        is_over = not now.unowned
        if departure.how == status_pb2.ServerStatus.LEFT and is_over:
            continue
        if is_over and situation.now_ms - departure.at_ms >= _RECENT_MS:
            continue
        verb = (
            "has shut down"
            if departure.how == status_pb2.ServerStatus.LEFT
            else f"has not renewed its lease since {clock_text(departure.renewed_at_ms)}"
        )
        taken = f"taken by {', '.join(now.successors[:_MOST_NAMED])}"
        if now.successors and is_over:
            groups = f"its {count_text(now.key_groups, 'key group')} were {taken}"
        elif now.successors:
            groups = (
                f"{now.unowned} of its {count_text(now.key_groups, 'key group')} are not open yet, "
                f"the others were {taken}"
            )
        else:
            groups = f"no server has its {count_text(now.key_groups, 'key group')} open yet"
        host = server.query_address.rpartition(":")[0]
        log = f", log {server.log_file}" if server.log_file else ""
        process = f"executor {server.executor_id} on {host} (process {server.pid}{log})"
        yield finding(
            "SERVER_LOST",
            WARNING if is_over else ERROR,
            departure.at_ms,
            f"State server {server.server_id} of {process} {verb}; {groups}.",
            "Look why this process ended (memory, host, a signal); nothing else is to do, the "
            "state is complete on its new owners."
            if is_over
            else "The next batch of the job opens the state on another server; if that does not "
            "happen within a minute, check that executors are live, and the process named here.",
        )


def _damaged_files(situation: Situation) -> Iterator[status_pb2.Finding]:
    for damaged in situation.damaged:
        yield finding(
            "CHECKPOINT_DAMAGED",
            WARNING if situation.is_running else ERROR,
            damaged.at_ms,
            f"A file of a checkpoint is damaged and was not used: {damaged.path}: "
            f"{damaged.problem}",
            "An older checkpoint and its changelogs were used instead; check the disk or the "
            "store of this path, and take a savepoint once the job runs.",
        )


def _watermarks(situation: Situation) -> Iterator[status_pb2.Finding]:
    watermark, now_ms = situation.description.watermark, situation.now_ms
    if not situation.is_running or situation.failing_since_ms:
        return
    if not (watermark.watermark_ms or situation.expects_watermark):
        return
    stuck_ms = now_ms - watermark.moved_at_ms
    if not watermark.moved_at_ms or not watermark.rows_since or stuck_ms < _STUCK_MS:
        return
    sources = situation.description.sources
    idle = [
        f"input {number} ({source.description}) has had no rows"
        + (f" for {age_text(now_ms - source.last_rows_at_ms)}" if source.last_rows_at_ms else "")
        for number, source in enumerate(sources)
        if now_ms - source.last_rows_at_ms >= _STUCK_MS
    ]
    cause = f"; {'; '.join(idle[:_MOST_NAMED])}" if idle and len(idle) < len(sources) else ""
    value = clock_text(watermark.watermark_ms) if watermark.watermark_ms else "no value"
    yield finding(
        "WATERMARK_STUCK",
        WARNING,
        watermark.moved_at_ms,
        f"The watermark has stood at {value} for {age_text(stuck_ms)}, while "
        f"{count_text(watermark.rows_since, 'row')} arrived{cause}.",
        "Give the idle input records or leave it out: the slowest input holds the watermark back."
        if cause
        else "Check the event times of the newest records: rows older than the watermark never "
        "move it, and windows and timers wait for it.",
    )


def _checkpoints(situation: Situation) -> Iterator[status_pb2.Finding]:
    status, now_ms = situation.description.checkpoints, situation.now_ms
    if status.failures_in_a_row:
        yield finding(
            "CHECKPOINT_FAILING",
            WARNING,
            status.last_failure_at_ms,
            f"The last {count_text(status.failures_in_a_row, 'checkpoint')} failed: "
            f"{status.last_failure}",
            f"Check that {status.root or 'the checkpoint directory'}, and a disk that the failure "
            "names, can be written and has room; the job goes on meanwhile, and its changelogs "
            "grow.",
        )
    if not (status.durable and status.interval_ms and situation.is_running):
        return
    last = status.last_completed
    batch_id = situation.description.last_batch.batch_id
    since_ms = last.at_ms or situation.description.info.started_at_ms
    age_ms = now_ms - since_ms
    if batch_id <= (last.batch_id if status.HasField("last_completed") else -1) or not since_ms:
        return
    if age_ms < max(_LEAST_AGE_MS, _INTERVALS * status.interval_ms):
        return
    declined = next((each.failure for each in status.newest if each.outcome == each.DECLINED), "")
    yield finding(
        "CHECKPOINT_OLD",
        WARNING,
        since_ms,
        f"The newest checkpoint is {age_text(age_ms)} old, and one is due every "
        f"{age_text(status.interval_ms)}" + (f": {declined}" if declined else "."),
        "Look at the failures and durations of checkpoints in `queryable-state status JOB`; a "
        "restart now replays all changelogs since that checkpoint.",
    )
