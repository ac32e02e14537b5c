"""The process of the watched job: a coordinator, a state server, and a task that writes batches.

Prints the address of the server's proxy, then one line of JSON for each line that it reads.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path

from queryable_state.server.testing.cluster import InProcessCluster, declare

JOB, STATE = "busy", "values"


def key_of(number: int) -> str:
    return f"sensor_{number:06}"


async def main() -> None:
    """`argv`: keys of the state, keys that a batch changes, batches, seconds between batches."""
    keys, changed, batches = (int(word) for word in sys.argv[1:4])
    pause_s = float(sys.argv[4])
    with tempfile.TemporaryDirectory() as folder:
        async with InProcessCluster(Path(folder)) as cluster:
            job = cluster.job(JOB, declare(STATE, "string", "bigint"))
            await job.run(0, {STATE: {key_of(number): 0 for number in range(keys)}})
            print(cluster.servers[0].addresses.proxy, flush=True)
            batch = 0
            while await asyncio.to_thread(sys.stdin.readline):
                took_ms = []
                cpu_s = time.process_time()
                for _ in range(batches):
                    batch += 1
                    first = batch * changed % keys
                    written = {key_of((first + at) % keys): batch for at in range(changed)}
                    begun_s = time.perf_counter()
                    await job.run(batch, {STATE: written})
                    took_s = time.perf_counter() - begun_s
                    took_ms.append(took_s * 1000)
                    await asyncio.sleep(max(0.0, pause_s - took_s))
                cpu_ms = (time.process_time() - cpu_s) * 1000 / batches
                print(json.dumps({"took_ms": took_ms, "cpu_ms": cpu_ms}), flush=True)


if __name__ == "__main__":
    asyncio.run(main())
