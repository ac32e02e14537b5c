"""Many clients, each with a connection of its own and a look-up now and then.

`python -m benchmarks.soak.connections ADDRESS JOB_ID CLIENTS KEYS CA TOKEN` answers `open` on its
standard input once every client has had an answer, and `finish` with the look-ups since then.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import sys
from dataclasses import dataclass, field

from benchmarks.mixed.clients import OwnClient
from benchmarks.signals import exit_on_sigterm
from benchmarks.streaming.dataset import key_names
from queryable_state.client import QueryableStateError, Tls

PERIOD_S = 10.0
"""Time between two look-ups of one client."""
_AT_ONCE = 20
"""Clients that connect at the same time."""


@dataclass
class Counts:
    """Look-ups of all clients."""

    answers: int = 0
    errors: list[str] = field(default_factory=list)


async def look_up(client: OwnClient, keys: int, counts: Counts) -> None:
    """One look-up of any key."""
    try:
        state = await client.get(random.randrange(keys))
        if client.sums(state) is None:
            counts.errors.append("a key is missing")
    except QueryableStateError as error:
        counts.errors.append(f"{type(error).__name__}: {error}")
    counts.answers += 1


async def go_on(client: OwnClient, keys: int, counts: Counts) -> None:
    """Looks up until it is cancelled."""
    await asyncio.sleep(random.uniform(0, PERIOD_S))
    while True:
        await look_up(client, keys, counts)
        await asyncio.sleep(PERIOD_S)


async def main() -> None:
    address, job_id, number, keys, ca, token = sys.argv[1:]
    names = key_names(int(keys))
    counts = Counts()
    turn = asyncio.Semaphore(_AT_ONCE)

    async def opened(client: OwnClient) -> None:
        async with turn:
            await look_up(client, len(names), counts)

    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(
                OwnClient(names, address, job_id, tls=Tls(ca=ca), token=token)
            )
            for _ in range(int(number))
        ]
        await _command()
        await asyncio.gather(*map(opened, clients))
        _send(counts)
        counts = Counts(errors=counts.errors)
        tasks = [asyncio.create_task(go_on(each, len(names), counts)) for each in clients]
        await _command()
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        _send(counts)


async def _command() -> None:
    if not await asyncio.to_thread(sys.stdin.readline):
        raise SystemExit(1)


def _send(counts: Counts) -> None:
    print(json.dumps({"answers": counts.answers, "errors": counts.errors[:20]}), flush=True)


if __name__ == "__main__":
    exit_on_sigterm()
    asyncio.run(main())
