"""A well-behaved client in a process of its own, which measures how long its answers take.

    python -m tests.hostile.witness HOST:PORT ...

It asks every server all the time. For each line on its standard input it prints what was since the
line before, as JSON: by address the answers, the longest wait in milliseconds, and the errors.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from dataclasses import dataclass, field

from queryable_state.client import QueryableStateClient
from queryable_state.wire.errors import QueryableStateError

_PAUSE_S = 0.005


@dataclass
class Seen:
    """The answers of one server."""

    answers: int = 0
    worst_ms: float = 0.0
    errors: list[str] = field(default_factory=list)


async def ask(address: str, seen: dict[str, Seen]) -> None:
    """Asks one server for ever."""
    host, _, port = address.rpartition(":")
    token = os.environ.get("QUERYABLE_STATE_TOKEN") or None
    async with QueryableStateClient(
        host, int(port), timeout_s=20.0, direct=False, token=token
    ) as client:
        number = 0
        while True:
            number = (number + 1) % 200
            asked_at_s = time.perf_counter()
            try:
                state = await client.get_kv_state("sensors", "last", f"sensor_{number}")
                assert state.value() == float(number)
            except QueryableStateError as error:
                seen[address].errors.append(f"{type(error).__name__}: {error}")
            known = seen[address]
            known.answers += 1
            known.worst_ms = max(known.worst_ms, (time.perf_counter() - asked_at_s) * 1000)
            await asyncio.sleep(_PAUSE_S)


async def main(addresses: list[str]) -> None:
    """Runs until standard input ends."""
    seen = {address: Seen() for address in addresses}
    asking = [asyncio.create_task(ask(address, seen)) for address in addresses]
    while await asyncio.to_thread(sys.stdin.readline):
        told = {address: vars(known) for address, known in seen.items()}
        sys.stdout.write(json.dumps(told) + "\n")
        sys.stdout.flush()
        seen.update((address, Seen()) for address in addresses)
    for task in asking:
        task.cancel()
    await asyncio.gather(*asking, return_exceptions=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1:]))
