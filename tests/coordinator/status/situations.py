"""Situations of jobs, for the rules of findings."""

from __future__ import annotations

from typing import Any

from queryable_state.server.coordinator.status.findings.findings import findings_of
from queryable_state.server.coordinator.status.findings.situation import Situation
from queryable_state.v1 import registration_pb2, status_pb2

NOW_MS = 1_700_000_000_000


def situation(
    description: status_pb2.JobDescription | None = None,
    *,
    status: registration_pb2.JobStatus.ValueType = registration_pb2.RUNNING,
    **facts: Any,
) -> Situation:
    description = description or status_pb2.JobDescription()
    description.info.status = status
    if not description.HasField("last_batch"):
        description.last_batch.running_batch_id = -1
    return Situation(description=description, now_ms=NOW_MS, **facts)


def codes(found: Situation) -> list[str]:
    return [finding.code for finding in findings_of(found)]


def failed(**fields: Any) -> status_pb2.JobDescription:
    known: dict[str, Any] = {"at_ms": NOW_MS - 1000, "batch_id": 3, "count": 1}
    error = status_pb2.JobError(**(known | fields))
    return status_pb2.JobDescription(last_error=error, errors=[error])
