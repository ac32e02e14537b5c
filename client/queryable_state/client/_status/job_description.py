"""Description of a job, as `describe_job` returns it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.client._notebook.html import html_table, time_text
from queryable_state.client._reading.listing import JobInfo
from queryable_state.client._status.job_status import (
    BatchTimes,
    CheckpointStatus,
    EndedFinding,
    Finding,
    HistoryPoint,
    JobError,
    OperatorStatus,
    Rates,
    RestoreProgress,
    SnapshotProgress,
    SourceStatus,
    Watermark,
)
from queryable_state.client._status.messages import name_of, scalars
from queryable_state.v1 import status_pb2

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Self


@dataclass(frozen=True, kw_only=True, slots=True)
class JobDescription:
    """What is known of one job."""

    info: JobInfo
    findings: tuple[Finding, ...]
    """What is wrong now, most urgent first."""
    ended_findings: tuple[EndedFinding, ...]
    """What is over, newest end first, at most 50."""
    last_error: JobError | None
    errors: tuple[JobError, ...]
    """The newest failures of its runs, newest first."""
    restarts: int
    rates: Rates
    last_batch: BatchTimes
    watermark: Watermark
    checkpoints: CheckpointStatus
    operators: tuple[OperatorStatus, ...]
    sources: tuple[SourceStatus, ...]
    restores: tuple[RestoreProgress, ...]
    savepoints: tuple[SnapshotProgress, ...]
    history: tuple[HistoryPoint, ...]
    """Of the last hour, oldest first; only if it was asked for."""
    is_reported: bool
    """False if no driver reports on the job, as on a query whose checkpoint is served: its rates,
    durations and checkpoints are unknown."""
    as_of_ms: int
    age_ms: int
    """The driver does not answer: age of this description. 0: it is current."""

    def _repr_html_(self) -> str:
        info = self.info
        caption = f"job {info.name} ({info.job_id}): {info.health}"
        if self.age_ms:
            caption += f", as of {self.age_ms / 1_000:.0f} s ago: the driver does not answer"
        return html_table(caption, (), self._facts())

    def _facts(self) -> Iterator[tuple[str, str]]:
        """Names and texts: what is wrong and what to do first."""
        for finding in self.findings:
            yield finding.code, f"{finding.message}\nnext: {finding.next_step}"
        batch, rates, checkpoints = self.last_batch, self.rates, self.checkpoints
        if self.is_reported:
            yield (
                "batch",
                f"{batch.batch_id}: {batch.batch_ms:,} ms, visible after {batch.lag_ms:,} ms",
            )
            yield "rows", f"{rates.rows_per_s:,.0f}/s in the last minute"
        else:
            yield "batch", str(batch.batch_id)
        if self.watermark.watermark_ms:
            yield "watermark", time_text(self.watermark.watermark_ms)
        if checkpoints.last_completed is not None:
            last = checkpoints.last_completed
            yield (
                "checkpoint",
                f"{last.checkpoint_id} at {time_text(last.at_ms)}, {last.bytes:,} bytes",
            )
        for operator in self.operators:
            servers = len({owner.server_id for owner in operator.owners})
            where = f"{operator.parallelism} subtasks; servers: {servers}"
            yield operator.name or operator.uid, f"{', '.join(operator.states)}: {where}"

    @classmethod
    def from_proto(cls, message: status_pb2.JobDescription) -> Self:
        """Converts the wire message."""
        errors = tuple(JobError(**scalars(JobError, error)) for error in message.errors)
        severity = status_pb2.Finding.Severity
        return cls(
            info=JobInfo.from_proto(message.info),
            findings=tuple(
                Finding(
                    **scalars(Finding, finding) | {"severity": name_of(severity, finding.severity)}
                )
                for finding in message.findings
            ),
            ended_findings=tuple(
                EndedFinding(
                    **scalars(EndedFinding, ended) | {"severity": name_of(severity, ended.severity)}
                )
                for ended in message.ended_findings
            ),
            last_error=errors[0] if errors else None,
            errors=errors,
            restarts=message.restarts,
            rates=Rates(**scalars(Rates, message.rates)),
            last_batch=BatchTimes(**scalars(BatchTimes, message.last_batch)),
            watermark=Watermark(**scalars(Watermark, message.watermark)),
            checkpoints=CheckpointStatus.from_proto(message.checkpoints),
            operators=tuple(map(OperatorStatus.from_proto, message.operators)),
            sources=tuple(SourceStatus(**scalars(SourceStatus, s)) for s in message.sources),
            restores=tuple(
                RestoreProgress(**scalars(RestoreProgress, each)) for each in message.restores
            ),
            savepoints=tuple(
                SnapshotProgress(**scalars(SnapshotProgress, each)) for each in message.savepoints
            ),
            history=tuple(HistoryPoint(**scalars(HistoryPoint, p)) for p in message.history),
            is_reported=message.HasField("rates") or message.HasField("checkpoints"),
            as_of_ms=message.as_of_ms,
            age_ms=message.age_ms,
        )
