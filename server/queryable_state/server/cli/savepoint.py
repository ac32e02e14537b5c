"""`queryable-state savepoint`: write a savepoint of a running job."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from queryable_state.cli.progress import ProgressBar
from queryable_state.cli.timeout_argument import add_timeout, seconds_of
from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.server.cli.arguments import add_storage_options, storage_options
from queryable_state.server.cli.driver_arguments import (
    SECRET_VARIABLE,
    add_driver,
    coordinators_of,
    endpoint_of,
    secret_of,
)
from queryable_state.v1 import status_pb2
from queryable_state.wire.errors import QueryableStateError
from queryable_state.wire.security.tls_arguments import add_tls, tls_of

if TYPE_CHECKING:
    import argparse

    from queryable_state.server.query.proxy.followed_coordinator import FollowedCoordinator


_TIMEOUT_S = 600.0
_LOOK_S = 0.3


def add_command(commands: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Adds the command's arguments."""
    savepoint = commands.add_parser(
        "savepoint",
        help="write a savepoint of a running job",
        description="Writes a savepoint of a running job and prints its URI; start a job from it "
        "with execute(..., savepoint=URI). A bar on the terminal shows how far it is. Finds the "
        "driver by its endpoint file (--endpoint), or at --coordinator with the job's secret from "
        "--secret-file or "
        f"{SECRET_VARIABLE}.",
    )
    savepoint.add_argument(
        "job",
        nargs="?",
        default="",
        metavar="JOB",
        help="id or name; optional if only one job runs",
    )
    savepoint.add_argument(
        "directory",
        nargs="?",
        default="",
        metavar="DIRECTORY",
        help="path or URI in which the savepoint's folder is made (default: the job's "
        "state.savepoints.dir)",
    )
    add_driver(savepoint)
    add_storage_options(savepoint)
    savepoint.add_argument(
        "--stop", action="store_true", help="end the job: nothing is processed after the savepoint"
    )
    add_timeout(savepoint, _TIMEOUT_S)
    add_tls(savepoint)
    savepoint.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    timeout_s = seconds_of(options)
    job, directory = options.job, options.directory
    if "/" in job and not directory:
        # A single argument with a slash is the directory: ids and names have none.
        job, directory = "", job
    request = coordinator_pb2.TriggerSavepointRequest(
        job=job, directory=_absolute(directory), stop=options.stop
    )
    answer = asyncio.run(
        _trigger(
            coordinators_of(options),
            secret_of(options.secret_file, required=not options.endpoint),
            options,
            request,
            timeout_s,
        )
    )
    print(answer.path, flush=True)
    return 0


async def _trigger(
    coordinators: tuple[str, ...],
    secret: str,
    options: argparse.Namespace,
    request: coordinator_pb2.TriggerSavepointRequest,
    timeout_s: float,
) -> coordinator_pb2.TriggerSavepointResponse:
    # Imported late, because importing grpc would slow down `--help`.
    from queryable_state.server.query.proxy.coordinator_endpoints import CoordinatorEndpoints
    from queryable_state.server.query.proxy.followed_coordinator import FollowedCoordinator
    from queryable_state.wire.security.connector import Connector

    coordinator = FollowedCoordinator(
        CoordinatorEndpoints(coordinators, secret, endpoint_of(options), storage_options(options)),
        Connector(tls_of(options), setting="--tls-{0}"),
    )
    try:
        await coordinator.connect()
        with ProgressBar("writing the savepoint") as bar:
            showing = asyncio.create_task(_show(bar, coordinator, request.job))
            try:
                return await coordinator.trigger_savepoint(request, timeout_s=timeout_s)
            finally:
                showing.cancel()
                await asyncio.wait([showing])
    finally:
        await coordinator.aclose()


async def _show(bar: ProgressBar, coordinator: FollowedCoordinator, job: str) -> None:
    """Shows how many ranges of key groups are written, until it is cancelled."""
    while bar.is_shown:
        # The savepoint is written all the same if the driver is too busy to say how far it is.
        with contextlib.suppress(QueryableStateError):
            described = await coordinator.describe_job(status_pb2.DescribeJobRequest(job=job))
            done = sum(each.ranges_done for each in described.savepoints)
            bar.show(done, sum(each.ranges for each in described.savepoints))
        await asyncio.sleep(_LOOK_S)


def _absolute(directory: str) -> str:
    """Makes a relative path absolute, because the driver runs in another folder."""
    if not directory or "://" in directory or directory.startswith("file:"):
        return directory
    return str(Path(directory).absolute())
