"""Commands `queryable-state status`, `errors` and `servers`: what is wrong, and what to do."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from queryable_state.cli.answers import print_json
from queryable_state.cli.arguments import add_operation
from queryable_state.cli.completed_names import complete
from queryable_state.cli.tables import (
    age_text,
    bytes_text,
    message_text,
    ms_text,
    percent_text,
    printable,
    table,
    time_text,
)

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from queryable_state.client import JobDescription, JobError, QueryableStateClient

_MOST_RESTORES = 8
_MOST_ENDED = 5


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the commands' arguments."""
    status = commands.add_parser(
        "status",
        help="what is known of a job, what is wrong with it, and what to do",
        description="Shows a job's health with findings and next steps, rates, durations, "
        "watermark, checkpoints, operators and owners.",
    )
    _add_job(status)
    add_operation(status, _status, of_state=False)
    errors = commands.add_parser(
        "errors",
        help="the newest failures of a job's runs",
        description="Shows the newest failures of a job's runs with their causes, newest first.",
    )
    _add_job(errors)
    add_operation(errors, _errors, of_state=False)
    servers = commands.add_parser(
        "servers",
        help="the state servers and their leases",
        description="Lists the state servers: live ones, then lost ones, newest first.",
    )
    add_operation(servers, _servers, of_state=False)


def _add_job(parser: argparse.ArgumentParser) -> None:
    job = parser.add_argument(
        "job", nargs="?", metavar="JOB", help="id or name (default: the only job that runs)"
    )
    complete(job, "jobs")


async def _status(options: argparse.Namespace, client: QueryableStateClient) -> int:
    job = await client.describe_job(options.job)
    if options.json:
        print_json(dataclasses.asdict(job))
    else:
        print(*map(message_text, _lines(job)), sep="\n")
    return 0


async def _errors(options: argparse.Namespace, client: QueryableStateClient) -> int:
    job = await client.describe_job(options.job)
    if options.json:
        print_json({"errors": [dataclasses.asdict(error) for error in job.errors]})
        return 0
    for error in job.errors:
        print(*map(message_text, _error_lines(error)), sep="\n")
    if not job.errors:
        name = printable(job.info.name or job.info.job_id)
        print(f"no run of {name} has failed in this driver")
    return 0


async def _servers(options: argparse.Namespace, client: QueryableStateClient) -> int:
    servers = await client.list_servers()
    if options.json:
        print_json({"servers": [dataclasses.asdict(server) for server in servers]})
        return 0
    rows = [
        (
            server.server_id,
            server.executor_id,
            server.query_address,
            str(server.pid),
            server.lease,
            ms_text(server.renewed_ago_ms),
            str(server.key_groups),
            bytes_text(server.staged_bytes),
            f"{server.refused_last_minute:,} {server.most_refused}".strip(),
            ", ".join(server.successors),
        )
        for server in servers
    ]
    head = (
        "server",
        "executor",
        "address",
        "pid",
        "lease",
        "renewed",
        "groups",
        "staged",
        "refused/min",
        "now at",
    )
    print(*table(head, rows), sep="\n")
    if servers and servers[0].age_ms:
        print(f"the driver does not answer; this is {ms_text(servers[0].age_ms)} old")
    return 0


def _lines(job: JobDescription) -> Iterator[str]:
    info = job.info
    started = f", started {time_text(info.started_at_ms)}" if info.started_at_ms else ""
    yield f"job {printable(info.name)} ({info.job_id}): {info.health}{started}"
    for finding in job.findings:
        since = f" since {time_text(finding.since_ms)}" if finding.since_ms else ""
        yield f"{finding.severity} {finding.code}{since}: {finding.message}"
        yield f"  next: {finding.next_step}"
    yield ""
    yield _batch_line(job)
    if job.is_reported:
        yield (
            f"rows: {job.rates.rows_per_s:,.0f}/s in the last minute, {job.rates.rows:,} in the "
            f"newest batch; restarts: {job.restarts}"
        )
    yield from _source_lines(job)
    if job.watermark.watermark_ms:
        watermark_ms, moved_ms = job.watermark.watermark_ms, job.watermark.moved_at_ms
        moved = f", moved {_age(job, moved_ms)} ago" if moved_ms else ""
        behind = _age(job, watermark_ms)
        yield f"watermark: {time_text(watermark_ms)}, {behind} behind{moved}"
    if job.is_reported or job.checkpoints.last_completed is not None:
        yield _checkpoint_line(job)
    for snapshot in (job.checkpoints.running, *job.savepoints):
        if snapshot is not None:
            kind = "savepoint" if snapshot.savepoint else "checkpoint"
            done = percent_text(snapshot.ranges_done, snapshot.ranges)
            yield f"{kind} {snapshot.path} is being written: {done}"
    for restore in job.restores[:_MOST_RESTORES]:
        groups = f"{restore.first_key_group}-{restore.last_key_group}"
        done = percent_text(restore.bytes_done, restore.bytes)
        of = f": {done} of {bytes_text(restore.bytes)}" if done else ""
        yield (f"loading key groups {groups} of {restore.operator_uid} on {restore.server_id}{of}")
    if len(job.restores) > _MOST_RESTORES:
        yield f"loading {len(job.restores) - _MOST_RESTORES} more subtasks"
    rows = [
        (
            operator.name or operator.uid,
            ", ".join(operator.states),
            f"{owner.first_key_group}-{owner.last_key_group}",
            owner.server_id or "none",
            "open" if owner.open else "not open",
        )
        for operator in job.operators
        for owner in operator.owners
    ]
    if job.ended_findings:
        yield ""
        yield "over:"
    for ended in job.ended_findings[:_MOST_ENDED]:
        until = f"{time_text(ended.began_ms)} to {time_text(ended.ended_ms)}"
        yield f"  {ended.code} {until}: {ended.message}"
    if len(job.ended_findings) > _MOST_ENDED:
        yield f"  and {len(job.ended_findings) - _MOST_ENDED} before: --json lists them"
    if rows:
        yield ""
        yield from table(("operator", "states", "key groups", "server", "state"), rows)


def _batch_line(job: JobDescription) -> str:
    batch = job.last_batch
    if not job.is_reported:
        # No driver has told how long its batches take.
        ended = f", committed {time_text(batch.ended_at_ms)}" if batch.ended_at_ms else ""
        visible = f", visible after {ms_text(batch.lag_ms)}" if batch.lag_ms else ""
        return f"batch {batch.batch_id}{ended}{visible}"
    running = f", batch {batch.running_batch_id} runs" if batch.running_batch_id >= 0 else ""
    return (
        f"batch {batch.batch_id}: {ms_text(batch.batch_ms)}, commit {ms_text(batch.commit_ms)}, "
        f"visible after {ms_text(batch.lag_ms)}{running}"
    )


def _source_lines(job: JobDescription) -> Iterator[str]:
    for number, source in enumerate(job.sources):
        if not source.last_rows_at_ms and not source.backlog:
            # Also the source of the job's timers, which never has rows.
            continue
        rows_at_ms = source.last_rows_at_ms
        rows = f"last rows {_age(job, rows_at_ms)} ago" if rows_at_ms else "no rows yet"
        # A file source knows the files that it has listed.
        least = "at least " if source.backlog and source.backlog_unit == "files" else ""
        waits = f", waiting: {least}{source.backlog:,} {source.backlog_unit}"
        name = f"input {number} ({printable(source.description)})"
        yield f"{name}: {rows}{waits if source.backlog_unit else ''}"


def _checkpoint_line(job: JobDescription) -> str:
    checkpoints = job.checkpoints
    last = checkpoints.last_completed
    if last is None:
        return "checkpoints: none" if checkpoints.durable else "checkpoints: state is not durable"
    failed = f", {checkpoints.failures_in_a_row} failed since" * bool(checkpoints.failures_in_a_row)
    size = f"{bytes_text(last.bytes)} " if last.bytes else ""
    name = "savepoint" if last.savepoint else f"checkpoint {last.checkpoint_id}"
    return (
        f"{name}: batch {last.batch_id}, {_age(job, last.at_ms)} ago, {size}in "
        f"{ms_text(last.duration_ms)}{failed}"
    )


def _age(job: JobDescription, at_ms: int) -> str:
    """Time from a moment until the description was made."""
    return age_text(max(0, job.as_of_ms - at_ms))


def _error_lines(error: JobError) -> Iterator[str]:
    times = f" ({error.count} runs in a row)" if error.count > 1 else ""
    at = f", batch {error.batch_id}" if error.batch_id >= 0 else ""
    yield f"{time_text(error.at_ms)}{at}{times}: {error.reason or 'Spark'}: {error.message}"
    fields = (("operator", error.operator), ("key", error.key_json), ("record", error.record))
    for name, text in fields:
        if text:
            yield f"  {name}: {text}"
    for line in error.traceback.splitlines():
        yield f"  {line}"
