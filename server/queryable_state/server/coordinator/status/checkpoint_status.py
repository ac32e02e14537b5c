"""Checkpoints of a job as its status shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.coordinator.checkpoints.snapshot_writer import size_bytes
from queryable_state.v1 import status_pb2

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.internal.v1.checkpoint_pb2 import CheckpointMetadata
    from queryable_state.server.coordinator.checkpoints.history import CheckpointReport
    from queryable_state.server.coordinator.model.job_config import JobConfig
    from queryable_state.server.coordinator.roots.job_roots import JobRoot

_NEWEST = 20

_OUTCOMES = {
    "completed": status_pb2.CheckpointSummary.COMPLETED,
    "failed": status_pb2.CheckpointSummary.FAILED,
    "declined": status_pb2.CheckpointSummary.DECLINED,
}


def checkpoint_status(
    root: JobRoot | None, config: JobConfig | None, reports: Sequence[CheckpointReport]
) -> status_pb2.CheckpointStatus:
    """The checkpoints of a job; `reports` are its attempts in this driver, newest first."""
    status = status_pb2.CheckpointStatus(
        durable=root is not None,
        root="" if root is None else root.uri,
        interval_ms=0 if config is None else config.checkpoint_interval_ms,
        newest=[_summary(report) for report in reports[:_NEWEST]],
    )
    attempts = [report for report in reports if not report.savepoint]
    failed = [report for report in attempts if report.state == "failed"]
    status.failures = len(failed)
    if failed:
        status.last_failure = failed[0].failure
        status.last_failure_at_ms = failed[0].triggered_at_ms + failed[0].duration_ms
    for report in attempts:
        if report.state == "completed":
            break
        status.failures_in_a_row += report.state == "failed"
    completed = root.checkpoints() if root is not None else []
    if completed:
        status.last_completed.CopyFrom(_completed(completed[0], attempts))
    return status


def _completed(
    metadata: CheckpointMetadata, reports: Sequence[CheckpointReport]
) -> status_pb2.CheckpointSummary:
    """A complete checkpoint, of this driver or of an earlier one."""
    for report in reports:
        if report.state == "completed" and report.checkpoint_id == metadata.checkpoint_id:
            return _summary(report)
    return status_pb2.CheckpointSummary(
        checkpoint_id=metadata.checkpoint_id,
        outcome=status_pb2.CheckpointSummary.COMPLETED,
        batch_id=metadata.version,
        at_ms=metadata.triggered_at_ms,
        duration_ms=metadata.duration_ms,
        bytes=size_bytes(metadata),
    )


def _summary(report: CheckpointReport) -> status_pb2.CheckpointSummary:
    return status_pb2.CheckpointSummary(
        checkpoint_id=report.checkpoint_id,
        savepoint=report.savepoint,
        outcome=_OUTCOMES[report.state],
        batch_id=report.version,
        at_ms=report.triggered_at_ms,
        duration_ms=report.duration_ms,
        bytes=report.bytes,
        new_bytes=report.new_bytes,
        path=report.path,
        failure=report.failure,
    )
