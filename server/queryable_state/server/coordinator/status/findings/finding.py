"""Makes findings."""

from __future__ import annotations

from queryable_state.v1 import status_pb2

WARNING = status_pb2.Finding.WARNING
ERROR = status_pb2.Finding.ERROR


def finding(
    code: str,
    severity: status_pb2.Finding.Severity.ValueType,
    since_ms: int,
    message: str,
    next_step: str,
) -> status_pb2.Finding:
    """A finding whose message ends with a full stop."""
    return status_pb2.Finding(
        code=code,
        severity=severity,
        since_ms=since_ms,
        message=message if message.endswith(".") else f"{message}.",
        next_step=next_step,
    )
