"""The process that waits for values to appear: `freshness` starts it, one for each run.

Prints one JSON line for each new value of the key: the value, the batch it was read at, and when it
was read, in microseconds of the machine's clock. Ends with its standard input.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time

from queryable_state.client import Consistency, QueryableStateClient, UnknownKeyOrNamespaceError

_POLL_S = 0.002


def tell(consistency: str, value: int, version: int) -> None:
    """One line."""
    seen_us = time.time_ns() // 1000
    seen = {"of": consistency, "value": value, "batch": version, "seen_us": seen_us}
    print(json.dumps(seen), flush=True)


async def committed(client: QueryableStateClient, job: str, name: str, key: str) -> None:
    """Each value, by a question that waits for the batch that brings it."""
    batch = 0
    while True:
        state = await client.get_kv_state(
            job, name, key, consistency=Consistency.at_least(batch), timeout_s=600
        )
        tell("committed", state.get(), state.info.version)
        batch = state.info.version + 1


async def uncommitted(client: QueryableStateClient, job: str, name: str, key: str) -> None:
    """Each value, by asking again and again: nothing tells that a batch is sealed."""
    newest = 0
    while True:
        try:
            state = await client.get_kv_state(job, name, key, consistency=Consistency.UNCOMMITTED)
        except UnknownKeyOrNamespaceError:
            continue
        if state.get() != newest:
            newest = state.get()
            tell("uncommitted", newest, state.info.version)
        await asyncio.sleep(_POLL_S)


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("proxy", help="HOST:PORT")
    parser.add_argument("job")
    parser.add_argument("name")
    parser.add_argument("key")
    options = parser.parse_args()
    host, port = options.proxy.rsplit(":", 1)
    async with QueryableStateClient(host, int(port)) as client:
        asked = (client, options.job, options.name, options.key)
        tasks = [asyncio.create_task(read(*asked)) for read in (committed, uncommitted)]
        ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
        done, _ = await asyncio.wait([*tasks, ended], return_when=asyncio.FIRST_COMPLETED)
        for task in tasks:
            task.cancel()
        for task in done - {ended}:
            task.result()


if __name__ == "__main__":
    asyncio.run(main())
