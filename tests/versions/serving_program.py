"""A cluster with one job, until standard input ends; run with an earlier package.

Argument: a folder. Prints `READY` and the addresses of proxy and state server, and where the
package is.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import queryable_state.server.testing.cluster as of_package
from queryable_state.server.testing.cluster import InProcessCluster, declare


async def main(folder: Path) -> None:
    async with InProcessCluster(folder) as cluster:
        job = cluster.job("sensors", declare("last", "string", "double"))
        await job.run(0, {"last": {"a": 1.5, "b": 2.5}})
        await job.run(1, {"last": {}})
        proxy = await cluster.add_proxy()
        server = cluster.servers[0].addresses
        sys.stdout.write(f"READY {proxy.address} {server.query} {of_package.__file__}\n")
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
