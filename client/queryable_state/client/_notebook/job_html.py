"""The description of a job as HTML."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

from queryable_state.client._notebook.html import html_table

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.client._status.job_status import JobDescription


def job_html(job: JobDescription) -> str:
    """A table: what is wrong and what to do first, then batch, rows, watermark and checkpoint."""
    info = job.info
    caption = f"job {info.name} ({info.job_id}): {info.health}"
    if job.age_ms:
        caption += f", as of {job.age_ms / 1_000:.0f} s ago: the driver does not answer"
    return html_table(caption, (), _rows(job))


def _rows(job: JobDescription) -> Iterator[tuple[str, str]]:
    for finding in job.findings:
        yield finding.code, f"{finding.message}\nnext: {finding.next_step}"
    batch, rates, checkpoints = job.last_batch, job.rates, job.checkpoints
    yield "batch", f"{batch.batch_id}: {batch.batch_ms:,} ms, visible after {batch.lag_ms:,} ms"
    yield (
        "rows",
        f"{rates.input_rows_per_s:,.0f}/s in, {rates.processed_rows_per_s:,.0f}/s processed",
    )
    if job.watermark.watermark_ms:
        yield "watermark", _time(job.watermark.watermark_ms)
    if checkpoints.last_completed is not None:
        last = checkpoints.last_completed
        yield "checkpoint", f"{last.checkpoint_id} at {_time(last.at_ms)}, {last.bytes:,} bytes"
    for operator in job.operators:
        servers = len({owner.server_id for owner in operator.owners})
        where = f"{operator.parallelism} subtasks; servers: {servers}"
        yield operator.name or operator.uid, f"{', '.join(operator.states)}: {where}"


def _time(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1_000, UTC).isoformat(sep=" ", timespec="seconds")
