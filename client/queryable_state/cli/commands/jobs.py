"""Command `queryable-state jobs`: lists the jobs."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from queryable_state.cli.answers import print_json
from queryable_state.cli.arguments import add_operation
from queryable_state.cli.tables import table, time_text

if TYPE_CHECKING:
    import argparse

    from queryable_state.client import QueryableStateClient


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command's arguments."""
    parser = commands.add_parser(
        "jobs", help="list the jobs", description="Lists the jobs, oldest first."
    )
    add_operation(parser, _jobs, of_state=False)


async def _jobs(options: argparse.Namespace, client: QueryableStateClient) -> int:
    jobs = await client.list_jobs(allow_stale=True)
    if options.json:
        print_json({"jobs": [dataclasses.asdict(job) for job in jobs]})
        return 0
    rows = [
        (
            job.name,
            job.job_id,
            # Spark calls a query running until it has ended, also one whose run fails.
            job.health,
            time_text(job.started_at_ms),
            str(job.committed_batch) if job.committed_batch >= 0 else "none",
            ", ".join(job.states),
            job.problem,
        )
        for job in jobs
    ]
    print(*table(("job", "id", "health", "started", "batch", "states", "problem"), rows), sep="\n")
    return 0
