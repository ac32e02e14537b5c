"""Recorded facts of jobs that no other table of the coordinator has. All are bounded."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.server.coordinator.status.findings.finding_history import FindingHistory
from queryable_state.server.coordinator.status.findings.job_pace import JobPace
from queryable_state.v1 import status_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from queryable_state.server.coordinator.model.commits import Commit
    from queryable_state.server.coordinator.status.reports import BatchReport, RunFailure


_HOUR_MS = 3_600_000
_MINUTE_MS = 60_000
_POINTS = 720
_BUCKET_MS = _HOUR_MS // _POINTS
# A report may follow the next batches' commits.
_LATE = 4


class BatchHistory:
    """At most one point in 5 seconds, 720 in all. Not thread-safe.

    A commit and the engine's report of the same batch arrive in any order.
    """

    def __init__(self) -> None:
        self._points: deque[status_pb2.HistoryPoint] = deque(maxlen=_POINTS)

    def committed(self, batch_id: int, at_ms: int, commit_ms: int, watermark_ms: int) -> None:
        """Adds a batch that all servers have committed."""
        point = self._point(batch_id, at_ms)
        point.commit_ms = max(point.commit_ms, commit_ms)
        point.watermark_ms = max(point.watermark_ms, watermark_ms)

    def reported(self, batch_id: int, at_ms: int, rows: int, batch_ms: int) -> None:
        """Adds what the engine reports of a batch."""
        point = self._point(batch_id, at_ms)
        point.rows += rows
        point.batch_ms = max(point.batch_ms, batch_ms)

    def since(self, at_ms: int) -> Iterator[status_pb2.HistoryPoint]:
        """The points at a time or later, oldest first."""
        return (point for point in self._points if point.at_ms >= at_ms)

    def rows_per_s(self, now_ms: int) -> float:
        """Rows of the batches of the last minute, a second; of a younger job, since it began."""
        if not self._points:
            return 0.0
        known_ms = now_ms - self._points[0].at_ms + _BUCKET_MS
        rows = sum(point.rows for point in self.since(now_ms - _MINUTE_MS))
        return 1000 * rows / max(_BUCKET_MS, min(_MINUTE_MS, known_ms))

    def last_hour(self, now_ms: int) -> Iterator[status_pb2.HistoryPoint]:
        """The points of the last hour, oldest first."""
        return self.since(now_ms - _HOUR_MS)

    def _point(self, batch_id: int, at_ms: int) -> status_pb2.HistoryPoint:
        for back in range(1, min(_LATE, len(self._points)) + 1):
            point = self._points[-back]
            first = self._points[-back - 1].batch_id + 1 if back < len(self._points) else batch_id
            if first <= batch_id <= point.batch_id:
                return point
        last = self._points[-1] if self._points else None
        if last is None or last.at_ms // _BUCKET_MS != at_ms // _BUCKET_MS:
            last = status_pb2.HistoryPoint()
            self._points.append(last)
        last.batch_id, last.at_ms = max(batch_id, last.batch_id), max(at_ms, last.at_ms)
        return last


_JOBS = 128
_ERRORS = 32
_DAMAGED = 8
_COMMITS = 16
_TEXT = 4000
_RECORD = 1000


@dataclass(frozen=True)
class DamagedFile:
    """A file of a checkpoint that a restore could not use."""

    at_ms: int
    path: str
    problem: str


@dataclass(kw_only=True)
class JobFacts:
    """Facts of one job. Times are milliseconds since the epoch, 0: never."""

    errors: deque[status_pb2.JobError] = field(default_factory=lambda: deque(maxlen=_ERRORS))
    """Failures of runs, newest first."""
    attempt: status_pb2.JobError | None = None
    """The newest failed attempt at a task since the last commit and the last failure of a run; its
    `count` is that of all of them. None: there is none."""
    attempts_since_ms: int = 0
    """The first of them."""
    failing_since_ms: int = 0
    """The first failure since the last commit; 0: none."""
    restart_at_ms: int = 0
    """When the failed job starts again; 0: no restart is pending."""
    restarts_watched: bool = False
    """A restart strategy decides on the next failure."""
    report: BatchReport | None = None
    """The newest one."""
    pace: JobPace = field(default_factory=JobPace)
    commit_ms: dict[int, int] = field(default_factory=dict)
    """Duration of the publication of the newest commits, by batch."""
    visible_at_ms: dict[int, int] = field(default_factory=dict)
    """End of the publication of the newest commits, by batch."""
    committed_at_ms: int = 0
    """The newest publication."""
    watermark_ms: int = 0
    moved_at_ms: int = 0
    """When the watermark last moved."""
    rows_since: int = 0
    """Rows since the watermark last moved."""
    source_rows_at_ms: dict[int, int] = field(default_factory=dict)
    """The newest batch with rows of each source."""
    damaged: deque[DamagedFile] = field(default_factory=lambda: deque(maxlen=_DAMAGED))
    findings: FindingHistory = field(default_factory=FindingHistory)
    history: BatchHistory = field(default_factory=BatchHistory)

    def recovered(self, commit: Commit) -> None:
        """Ends what this commit proves to be over.

        A commit of a batch before the failed one may be published after the failure: it proves
        nothing.
        """
        if not self.errors or _is_over(self.errors[0], commit):
            self.failing_since_ms = 0
        attempt = self.attempt
        if attempt is not None and _is_over(attempt, commit):
            self.attempt, self.attempts_since_ms = None, 0
        while self.damaged and self.damaged[-1].at_ms < commit.commit_time_ms:
            self.damaged.pop()


def _shortened(error: status_pb2.JobError) -> status_pb2.JobError:
    """A copy with texts of bounded length."""
    short = status_pb2.JobError()
    short.CopyFrom(error)
    short.message, short.traceback = error.message[:_TEXT], error.traceback[:_TEXT]
    short.record = error.record[:_RECORD]
    return short


def _is_over(error: status_pb2.JobError, commit: Commit) -> bool:
    """True if the batch could not have been committed if the error still held."""
    return 0 <= error.batch_id <= commit.version or commit.commit_time_ms > error.at_ms


class FactTable:
    """Facts of the newest jobs. Thread-safe, no I/O."""

    def __init__(self, wall_ms: Callable[[], int]) -> None:
        self._wall_ms = wall_ms
        self.lock = threading.Lock()
        """Held by readers of the facts that `of` returns."""
        self._jobs: dict[bytes, JobFacts] = {}

    def of(self, query_id: bytes) -> JobFacts:
        """The facts of a job. Call with `lock` held."""
        facts = self._jobs.get(query_id)
        if facts is None:
            facts = self._jobs[query_id] = JobFacts()
            if len(self._jobs) > _JOBS:
                del self._jobs[next(iter(self._jobs))]
        return facts

    def published(self, query_id: bytes, commit: Commit) -> None:
        """Records that all servers answer from a commit."""
        now_ms = self._wall_ms()
        with self.lock:
            facts = self.of(query_id)
            took_ms = max(0, now_ms - commit.commit_time_ms)
            facts.commit_ms[commit.version] = took_ms
            facts.visible_at_ms[commit.version] = now_ms
            if len(facts.commit_ms) > _COMMITS:
                del facts.commit_ms[next(iter(facts.commit_ms))]
                del facts.visible_at_ms[next(iter(facts.visible_at_ms))]
            facts.committed_at_ms = now_ms
            facts.recovered(commit)
            if commit.watermark_ms != facts.watermark_ms or not facts.moved_at_ms:
                facts.watermark_ms, facts.moved_at_ms = commit.watermark_ms, now_ms
                facts.rows_since = 0
            facts.history.committed(commit.version, now_ms, took_ms, commit.watermark_ms)

    def batch_reported(self, query_id: bytes, report: BatchReport) -> None:
        """Records the engine's report of a batch."""
        with self.lock:
            facts = self.of(query_id)
            before = facts.report
            if before is not None and before.batch_id == report.batch_id:
                return
            facts.report = report
            facts.pace.reported(report)
            facts.rows_since += report.rows
            for position, source in enumerate(report.sources):
                if source.rows or position not in facts.source_rows_at_ms:
                    facts.source_rows_at_ms[position] = report.ended_at_ms if source.rows else 0
            facts.history.reported(
                report.batch_id, report.ended_at_ms, report.rows, report.duration_ms
            )

    def run_failed(self, query_id: bytes, run_id: bytes, failure: RunFailure) -> None:
        """Records the failure of a run, once for each run.

        A failure with a reason replaces one without, which the engine's status told earlier.
        """
        with self.lock:
            facts = self.of(query_id)
            known = facts.errors[0] if facts.errors else None
            if known is not None and known.run_id == run_id:
                if known.reason or not failure.reason:
                    return
                facts.errors.popleft()
            else:
                known = None
            goes_on = facts.failing_since_ms > 0
            began_ms = facts.failing_since_ms or facts.attempts_since_ms
            facts.failing_since_ms = began_ms or self._wall_ms()
            facts.attempt, facts.attempts_since_ms = None, 0
            error = _shortened(failure.to_proto())
            error.run_id = run_id
            error.at_ms = self._wall_ms() if known is None else known.at_ms
            error.count = 1 if known is None else known.count
            last = facts.errors[0] if facts.errors else None
            same = last and (last.message, last.batch_id) == (error.message, error.batch_id)
            if last and same and goes_on:
                error.count += last.count
                facts.errors[0] = error
            else:
                facts.errors.appendleft(error)

    def attempt_failed(self, query_id: bytes, error: status_pb2.JobError) -> None:
        """Records that an attempt at a task fails; Spark may try it again."""
        with self.lock:
            facts = self.of(query_id)
            if error.batch_id in facts.visible_at_ms:
                return
            known = facts.attempt
            if known is None or known.run_id != error.run_id:
                facts.attempts_since_ms = self._wall_ms()
                known = None
            facts.attempt = _shortened(error)
            facts.attempt.at_ms = self._wall_ms()
            facts.attempt.count = 1 if known is None else known.count + 1

    def restarts_watched(self, query_id: bytes, *, is_watched: bool) -> None:
        """Records whether a restart strategy decides on the next failure of a job."""
        with self.lock:
            self.of(query_id).restarts_watched = is_watched

    def restart_pending(self, query_id: bytes, at_ms: int) -> None:
        """Records when a failed job is started again; 0: no restart is pending any more."""
        with self.lock:
            self.of(query_id).restart_at_ms = at_ms

    def file_damaged(self, query_id: bytes, path: str, problem: str) -> None:
        """Records a file of a checkpoint that a restore could not use; once for each path."""
        with self.lock:
            damaged = self.of(query_id).damaged
            if all(each.path != path for each in damaged):
                damaged.appendleft(DamagedFile(self._wall_ms(), path, problem))

    def forget(self, query_id: bytes) -> None:
        """Forgets a dropped job."""
        with self.lock:
            self._jobs.pop(query_id, None)
