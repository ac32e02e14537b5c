"""Known state of jobs: what the driver knows of a job, in one message."""

from __future__ import annotations

import shlex
import time
from typing import TYPE_CHECKING

from queryable_state.server.coordinator.batches.catalog import job_info
from queryable_state.server.coordinator.model.jobs import FAILED, RUNNING
from queryable_state.server.coordinator.status.checkpoint_status import checkpoint_status
from queryable_state.server.coordinator.status.findings.findings import (
    findings_of,
    most_urgent_first,
)
from queryable_state.server.coordinator.status.findings.load_findings import load_findings
from queryable_state.server.coordinator.status.findings.situation import Situation, health_of
from queryable_state.server.coordinator.status.operator_status import operator_statuses, restores_of
from queryable_state.server.coordinator.status.reports import RunFailure
from queryable_state.server.job_names import NamedJob, only_job
from queryable_state.v1 import query_pb2, registration_pb2, status_pb2

if TYPE_CHECKING:
    from queryable_state.internal.v1 import backend_pb2
    from queryable_state.server.coordinator.batches.catalog import Catalog
    from queryable_state.server.coordinator.checkpoints.history import CheckpointHistory
    from queryable_state.server.coordinator.checkpoints.snapshot_writer import SnapshotWriter
    from queryable_state.server.coordinator.model.jobs import Job
    from queryable_state.server.coordinator.model.state import CoordinatorState
    from queryable_state.server.coordinator.roots.job_roots import JobRoots
    from queryable_state.server.coordinator.status.job_facts import FactTable, JobFacts
    from queryable_state.server.coordinator.status.load_table import LoadTable

# Proxies list jobs up to ten times a second.
_HEALTH_S = 0.5


class JobStatus:
    """Describes jobs from the coordinator's tables. Thread-safe, no I/O."""

    def __init__(
        self,
        state: CoordinatorState,
        catalog: Catalog,
        roots: JobRoots,
        history: CheckpointHistory,
        writer: SnapshotWriter,
        facts: FactTable,
        load: LoadTable,
    ) -> None:
        self._state = state
        self._catalog = catalog
        self._roots = roots
        self._history = history
        self._writer = writer
        self._facts = facts
        self._load = load
        self._healths: dict[bytes, tuple[float, registration_pb2.JobInfo]] = {}

    def describe(self, request: status_pb2.DescribeJobRequest) -> status_pb2.JobDescription:
        """All that is known of a job; raises `UnknownJobError`."""
        with self._state.transaction():
            query_id = self._resolve(request.job).query_id
        return self._describe(query_id, with_history=request.with_history)

    def attempt_failed(self, request: backend_pb2.FailedAttempt) -> None:
        """Records a failed attempt of the current run of a job."""
        with self._state.transaction():
            run_id = self._state.jobs.resolve(request.query_id.hex()).run.run_id
        if request.error.run_id == run_id:
            self._facts.attempt_failed(request.query_id, request.error)

    def list_jobs(self) -> query_pb2.ListJobsResponse:
        """Every job with its health, by first contact."""
        views = self._catalog.list_jobs()
        now_s = time.monotonic()
        self._healths = {
            view.query_id: self._healths[view.query_id]
            for view in views
            if view.query_id in self._healths
        }
        response = query_pb2.ListJobsResponse()
        for view in views:
            info = response.jobs.add()
            info.CopyFrom(job_info(view))
            at_s, known = self._healths.get(view.query_id, (0.0, None))
            if known is None or now_s - at_s > _HEALTH_S or known.status != info.status:
                known = self._describe(view.query_id, with_history=False).info
                self._healths[view.query_id] = (now_s, known)
            info.health, info.problem = known.health, known.problem
        return response

    def _describe(self, query_id: bytes, *, with_history: bool) -> status_pb2.JobDescription:
        state = self._state
        with state.transaction():
            job = state.jobs.resolve(query_id.hex())
            now_ms = state.wall_ms()
            committed = state.commits.published_commit(query_id)
            running = job.run.begun if job.run.begun > committed.version else -1
            description = status_pb2.JobDescription(
                info=job_info(self._catalog.view(job)),
                restarts=job.restarts,
                operators=operator_statuses(state, job),
                restores=restores_of(state, job, self._load),
                watermark=status_pb2.Watermark(watermark_ms=committed.watermark_ms),
                last_batch=status_pb2.BatchTimes(
                    batch_id=committed.version,
                    running_batch_id=running,
                    running_since_ms=job.run.begun_at_ms if running >= 0 else 0,
                ),
                as_of_ms=now_ms,
            )
            refusal = job.run.fencing or (job.run.refusal.message if job.run.refusal else "")
            departures = [
                (departure, state.departed.succession(departure, query_id))
                for departure in state.departed
                if departure.of_query(query_id)
            ]
            expects_watermark = any(
                registration.HasField("namespace_type")
                for registration in state.states.of_job(query_id)
            ) or any(each.HasField("next_event_timer_ms") for each in description.operators)
            failed = job.error if job.status == FAILED else None
            run_id = job.run.run_id
            refused = job.run.refusal
            reason = refused.reason_name if refused and refused.message == failed else ""
        if failed is not None:
            # An engine without a listener reports the failure only here.
            self._facts.run_failed(query_id, run_id, RunFailure(message=failed, reason=reason))
        self._fill_checkpoints(description, query_id)
        with self._facts.lock:
            facts = self._facts.of(query_id)
            _fill_facts(description, facts, now_ms, with_history=with_history)
            situation = Situation(
                description=description,
                now_ms=now_ms,
                failing_since_ms=facts.failing_since_ms,
                attempt=_attempt_of(facts, run_id),
                attempts_since_ms=facts.attempts_since_ms,
                restart_at_ms=facts.restart_at_ms,
                restarts_watched=facts.restarts_watched,
                committed_at_ms=facts.committed_at_ms,
                pace=facts.pace.figures(),
                refusal=refusal,
                expects_watermark=expects_watermark,
                damaged=tuple(facts.damaged),
                departures=departures,
            )
        findings = most_urgent_first(
            [*findings_of(situation), *load_findings(self._load, query_id)]
        )
        for each in findings:
            # A command to be copied as it stands.
            name = shlex.quote(description.info.name or query_id.hex())
            each.next_step = each.next_step.replace(" JOB`", f" {name}`")
        description.findings.extend(findings)
        with self._facts.lock:
            history = self._facts.of(query_id).findings
            history.observe(findings, now_ms)
            description.ended_findings.extend(history.ended())
        description.info.health = health_of(situation, findings)
        description.info.problem = findings[0].message if findings else ""
        return description

    def _fill_checkpoints(self, description: status_pb2.JobDescription, query_id: bytes) -> None:
        description.checkpoints.CopyFrom(
            checkpoint_status(
                self._roots.of(query_id),
                self._roots.config(query_id),
                self._history.of(query_id),
            )
        )
        progress = self._writer.progress(query_id)
        if progress is not None and progress.savepoint:
            description.savepoints.append(progress)
        elif progress is not None:
            description.checkpoints.running.CopyFrom(progress)

    def _resolve(self, text: str) -> Job:
        jobs = self._state.jobs
        if text:
            return jobs.resolve(text)
        named = (NamedJob(job.query_id, job.name, job.status == RUNNING) for job in jobs)
        return jobs.resolve(only_job(named).hex())


def _attempt_of(facts: JobFacts, run_id: bytes) -> status_pb2.JobError | None:
    attempt = facts.attempt
    return attempt if attempt is not None and attempt.run_id == run_id else None


def _fill_facts(
    description: status_pb2.JobDescription, facts: JobFacts, now_ms: int, *, with_history: bool
) -> None:
    description.errors.extend(facts.errors)
    if facts.errors:
        description.last_error.CopyFrom(facts.errors[0])
    description.watermark.moved_at_ms = facts.moved_at_ms
    description.watermark.rows_since = facts.rows_since
    if with_history:
        description.history.extend(facts.history.last_hour(now_ms))
    report = facts.report
    if report is None:
        return
    description.rates.rows = report.rows
    description.rates.input_rows_per_s = report.input_rows_per_s
    description.rates.processed_rows_per_s = report.processed_rows_per_s
    description.rates.rows_per_s = facts.history.rows_per_s(now_ms)
    batch = description.last_batch
    batch.batch_id = report.batch_id
    batch.ended_at_ms = report.ended_at_ms
    batch.batch_ms = report.duration_ms
    batch.commit_ms = facts.commit_ms.get(report.batch_id, 0)
    visible_at_ms = facts.visible_at_ms.get(report.batch_id, report.ended_at_ms)
    batch.lag_ms = max(0, visible_at_ms - report.ended_at_ms)
    for position, source in enumerate(report.sources):
        description.sources.add(
            description=source.description,
            rows=source.rows,
            input_rows_per_s=source.rows_per_s,
            last_rows_at_ms=facts.source_rows_at_ms.get(position, 0),
            backlog=source.backlog,
            backlog_unit=source.backlog_unit,
        )
