"""The command `queryable-state proxy` as a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.waiting import DEADLINE_S

from queryable_state.server.cli.driver_arguments import SECRET_VARIABLE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from queryable_state.server.testing.cluster import InProcessCluster


@dataclass(frozen=True)
class RunningProxy:
    """The process, and where it says it listens."""

    process: asyncio.subprocess.Process
    address: str


@asynccontextmanager
async def started_proxy(cluster: InProcessCluster, *arguments: str) -> AsyncIterator[RunningProxy]:
    """A proxy that listens; killed at the end of the block if it has not ended."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        "import sys; from queryable_state.cli import main; sys.exit(main())",
        "proxy",
        "--coordinator",
        cluster.coordinator.address,
        "--port",
        "0",
        *arguments,
        env=os.environ | {SECRET_VARIABLE: cluster.coordinator.secret},
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(DEADLINE_S):
            line = (await process.stdout.readline()).decode()
        assert line.startswith("proxy at ")
        yield RunningProxy(process, line.removeprefix("proxy at ").strip())
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
