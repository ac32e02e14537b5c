"""Spark's progress of batches: the report of one for the coordinator, and the newest one."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from queryable_state.server.coordinator import BatchReport, SourceReport

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.streaming.query import StreamingQuery

_MOST_CHARACTERS = 200


def batch_report(progress: Mapping[str, Any]) -> BatchReport:
    """The report of a batch from the JSON of Spark's `StreamingQueryProgress`."""
    duration_ms = int(progress.get("durationMs", {}).get("triggerExecution", 0))
    started = datetime.fromisoformat(progress["timestamp"])
    return BatchReport(
        batch_id=progress["batchId"],
        ended_at_ms=round(started.timestamp() * 1000) + duration_ms,
        duration_ms=duration_ms,
        rows=int(progress.get("numInputRows", 0)),
        # Spark leaves out rates that are not finite.
        input_rows_per_s=float(progress.get("inputRowsPerSecond", 0.0)),
        processed_rows_per_s=float(progress.get("processedRowsPerSecond", 0.0)),
        sources=tuple(
            SourceReport(
                description=str(source.get("description", ""))[:_MOST_CHARACTERS],
                rows=int(source.get("numInputRows", 0)),
                rows_per_s=float(source.get("inputRowsPerSecond", 0.0)),
            )
            for source in progress.get("sources", ())
        ),
    )


def executed_batch(query: StreamingQuery) -> int | None:
    """The newest batch that this run of a query has executed; None if its recent progress has none.

    A trigger that finds nothing to do reports the number of the next batch.
    """
    last = query.lastProgress
    if last is not None and not _executed(last):
        last = next(filter(_executed, reversed(query.recentProgress)), None)
    return None if last is None else int(last["batchId"])


def _executed(progress: Mapping[str, Any]) -> bool:
    return "addBatch" in progress["durationMs"]
