"""A state server whose jobs have a state of text values, in a process of its own.

`python -m benchmarks.rest.cluster_process JOBS` prints where its coordinator is, and its secret.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from queryable_state.server.testing.cluster import InProcessCluster, declare

KEYS = 10_000
VALUE_BYTES = 100


def key(number: int) -> str:
    """The key of an item."""
    return f"sensor_{number}"


def value(number: int) -> str:
    """The value that is written under the key."""
    return f"{number:0{VALUE_BYTES}}"


async def serve(folder: Path, jobs: int) -> None:
    """Serves until the input ends; the first job has the keys, the others have one each."""
    async with InProcessCluster(folder) as cluster:
        job = cluster.job("rest", declare("last", "string", "string"))
        await job.run(0, {"last": {key(number): value(number) for number in range(KEYS)}})
        for number in range(1, jobs):
            other = cluster.job(f"job {number}", declare("last", "string", "string"))
            await other.run(0, {"last": {key(0): value(0)}})
        print(cluster.coordinator.address, cluster.coordinator.secret, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="rest-") as name:
        asyncio.run(serve(Path(name), int(sys.argv[1])))
