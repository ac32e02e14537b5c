"""Spark's progress of batches: the report of one for the coordinator, and the newest one."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from queryable_state.server.coordinator import BatchReport, SourceReport
from queryable_state.streaming.spark.queries.source_backlog import backlog_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql.streaming.query import StreamingQuery

    from queryable_state.streaming.spark.queries.source_backlog import Backlog

_MOST_CHARACTERS = 200


def source_descriptions(progress: Mapping[str, Any]) -> list[str]:
    """Spark's descriptions of the sources of a batch."""
    return [str(source.get("description", "")) for source in progress.get("sources", ())]


def batch_report(progress: Mapping[str, Any], backlogs: Mapping[int, Backlog]) -> BatchReport:
    """The report of a batch from the JSON of Spark's `StreamingQueryProgress`.

    `backlogs` has those that are not in the progress, by position of their source.
    """
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
            _source_report(source, backlogs.get(position) or backlog_of(source))
            for position, source in enumerate(progress.get("sources", ()))
        ),
    )


def _source_report(source: Mapping[str, Any], backlog: Backlog) -> SourceReport:
    return SourceReport(
        description=str(source.get("description", ""))[:_MOST_CHARACTERS],
        rows=int(source.get("numInputRows", 0)),
        rows_per_s=float(source.get("inputRowsPerSecond", 0.0)),
        backlog=backlog.amount,
        backlog_unit=backlog.unit,
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
