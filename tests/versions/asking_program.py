"""A client that prints what a server answers, as one JSON object; run with an earlier package.

Arguments: HOST, PORT.
"""

from __future__ import annotations

import asyncio
import json
import sys

import queryable_state.client
from queryable_state.client import QueryableStateClient, QueryableStateError


async def answers(host: str, port: int, *, direct: bool) -> dict[str, object]:
    async with QueryableStateClient(host, port, direct=direct, timeout_s=20) as client:
        jobs = await client.list_jobs()
        states = await client.list_states()
        found = await client.get_kv_states("sensors", "last", ["a", "b", "c"])
        # The connections to owners are open after the first look-ups.
        again = await client.get_kv_states("sensors", "last", ["a", "b", "c"])
        scanned = [
            (key, state and state.value()) async for key, state in client.scan("sensors", "last")
        ]
        return {
            "jobs": [job.name for job in jobs],
            "states": [state.state_name for state in states],
            "found": [state and state.value() for state in found],
            "again": [state and state.value() for state in again],
            "scanned": sorted(scanned),
        }


async def main(host: str, port: int) -> None:
    told: dict[str, object] = {"package": queryable_state.client.__file__}
    for direct in (False, True):
        try:
            told["direct" if direct else "proxied"] = await answers(host, port, direct=direct)
        except QueryableStateError as refusal:
            told["refused"] = refusal.reason_name
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
