"""Command `queryable-state top`: a live view of one job."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import shutil
import sys
import time
from typing import TYPE_CHECKING, Any

from queryable_state.cli.answers import error_text, print_json
from queryable_state.cli.arguments import add_operation
from queryable_state.cli.commands.hot_keys import HEAD, hot_key_rows, hot_keys_json
from queryable_state.cli.commands.states import size_cells
from queryable_state.cli.completed_names import complete
from queryable_state.cli.tables import ms_text, printable, table, time_text
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from queryable_state.client import (
        HotKeys,
        JobDescription,
        QueryableStateClient,
        ServerStatus,
        StateMeasure,
    )

_REFRESH_S = 1.0
# A count reads up to 32,000 records of each subtask.
_SIZES_S = 30.0
_HOT_KEYS = 5
_HOME_AND_CLEAR = "\x1b[H\x1b[2J"


@dataclasses.dataclass(frozen=True)
class _Shown:
    """What one refresh shows; None: the caller may not see it."""

    job: JobDescription
    servers: list[ServerStatus]
    hot_keys: HotKeys | None
    sizes: dict[str, StateMeasure]


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command's arguments."""
    parser = commands.add_parser(
        "top",
        help="a live view of a job: rates, durations, watermark, servers, hot keys, sizes",
        description="Shows a job every second until Ctrl-C: rows a second, durations of batch "
        "and commit, age of the watermark, servers, hot keys and sizes of its states. Sizes are "
        "counted every 30 s.",
    )
    job = parser.add_argument(
        "job", nargs="?", metavar="JOB", help="id or name (default: the only job that runs)"
    )
    complete(job, "jobs")
    parser.add_argument("--once", action="store_true", help="show it once and end")
    add_operation(parser, _top, of_state=False)


async def _top(options: argparse.Namespace, client: QueryableStateClient) -> int:
    sizes: dict[str, StateMeasure] = {}
    counted_s = -_SIZES_S
    while True:
        begun_s = time.monotonic()
        job = await client.describe_job(options.job)
        if begun_s - counted_s >= _SIZES_S:
            counted_s, sizes = begun_s, await _sizes(client, job)
        shown = _Shown(job, await client.list_servers(), await _hot_keys(client, job), sizes)
        if options.json and options.once:
            print_json(_json(shown))
        elif options.json:
            # One object a line, for programs that follow it.
            print(json.dumps(_json(shown), allow_nan=False), flush=True)
        else:
            lines = list(map(printable, _lines(shown)))
            if sys.stdout.isatty() and not options.once:
                # A line that wraps would push the first ones out of sight.
                size = shutil.get_terminal_size()
                lines = [line[: size.columns] for line in lines[: size.lines - 1]]
                print(_HOME_AND_CLEAR, end="")
            print(*lines, sep="\n", flush=True)
        if options.once:
            return 0
        await asyncio.sleep(max(0.0, begun_s + _REFRESH_S - time.monotonic()))


async def _hot_keys(client: QueryableStateClient, job: JobDescription) -> HotKeys | None:
    try:
        return await client.hot_keys(job.info.job_id, limit=_HOT_KEYS)
    except QueryableStateError:
        return None


async def _sizes(client: QueryableStateClient, job: JobDescription) -> dict[str, StateMeasure]:
    """The sizes of the states that the caller may scan."""
    sizes = {}
    for name in job.info.states:
        try:
            sizes[name] = await client.measure(job.info.job_id, name)
        except QueryableStateError:
            continue
    return sizes


def _json(shown: _Shown) -> dict[str, Any]:
    return {
        "job": dataclasses.asdict(shown.job),
        "servers": [dataclasses.asdict(server) for server in shown.servers],
        "hot_keys": None if shown.hot_keys is None else hot_keys_json(shown.hot_keys),
        "sizes": {
            name: {
                "keys": size.keys,
                "records": size.records,
                "bytes": size.bytes,
                "exact": size.exact,
                "keys_error": size.keys_error,
                "complete": size.complete,
            }
            for name, size in shown.sizes.items()
        },
    }


def _lines(shown: _Shown) -> Iterator[str]:
    job, batch = shown.job, shown.job.last_batch
    yield f"{job.info.name or job.info.job_id}: {job.info.health} at {time_text(job.as_of_ms)}"
    for finding in job.findings:
        yield f"{finding.severity} {finding.code}: {finding.message}"
        yield f"  next: {finding.next_step}"
    yield ""
    if job.is_reported:
        yield (
            f"rows/s {job.rates.rows_per_s:,.0f}   batch {batch.batch_id}: "
            f"{job.rates.rows:,} rows, {ms_text(batch.batch_ms)}, "
            f"commit {ms_text(batch.commit_ms)}, visible after {ms_text(batch.lag_ms)}   "
            f"restarts {job.restarts}"
        )
    else:
        yield f"batch {batch.batch_id}"
    mark = job.watermark
    if mark.watermark_ms:
        age_ms = max(0, job.as_of_ms - mark.watermark_ms)
        moved_ms = max(0, job.as_of_ms - mark.moved_at_ms)
        moved = f", moved {ms_text(moved_ms)} ago" if mark.moved_at_ms else ""
        yield f"watermark {time_text(mark.watermark_ms)}, {ms_text(age_ms)} behind{moved}"
    yield ""
    rows = [
        (server.server_id, server.query_address, server.lease, str(server.key_groups))
        for server in shown.servers
    ]
    yield from table(("server", "address", "lease", "key groups"), rows)
    if shown.sizes:
        yield ""
        sizes = [(name, *size_cells(size)) for name, size in shown.sizes.items()]
        yield from table(("state", "keys", "records", "bytes"), sizes)
    if shown.hot_keys is not None:
        yield ""
        yield from table(HEAD, hot_key_rows(shown.hot_keys)[: 2 * _HOT_KEYS])
        yield from map(error_text, shown.hot_keys.errors)
