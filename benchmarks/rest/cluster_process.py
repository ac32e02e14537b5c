"""A state server with one state of text values, in a process of its own; prints where it is."""

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


async def serve(folder: Path) -> None:
    """Serves until the input ends."""
    async with InProcessCluster(folder) as cluster:
        job = cluster.job("rest", declare("last", "string", "string"))
        await job.run(0, {"last": {key(number): value(number) for number in range(KEYS)}})
        print(cluster.coordinator.address, cluster.coordinator.secret, flush=True)
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="rest-") as name:
        asyncio.run(serve(Path(name)))
