"""The reader of a round: asks for every key, all the time, and writes down what it is told.

It knows what a dashboard may know: the folders in which state servers say where they listen. It
has a client that goes to the owners and one that stays on proxies, and takes another server
whenever most of its queries are refused. Ends when its standard input does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_client,-event_engine_listener")

from tests.chaos.history import MISSING, History
from tests.chaos.reads import Read, to_lines
from tests.chaos.workload import JOB_NAME, TOTALS

from queryable_state.client import (
    KvState,
    ListState,
    MapState,
    QueryableStateClient,
    UnknownKeyOrNamespaceError,
    ValueState,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

TIMEOUT_S = 2.0
_PAUSE_S = 0.1


def addresses(servers: Path) -> list[str]:
    """HOST:PORT of the proxies that state servers have told, dead ones among them."""
    found = []
    for path in sorted(servers.glob("queryable-state-*/server.json")):
        try:
            found.append(str(json.loads(path.read_text())["proxy"]))
        except (OSError, ValueError, KeyError):
            continue
    return found


def client_of(address: str, *, direct: bool = True) -> QueryableStateClient:
    """A client of one proxy."""
    host, _, port = address.rpartition(":")
    return QueryableStateClient(host, int(port), timeout_s=TIMEOUT_S, direct=direct)


def plain(state: KvState) -> object:
    """A state's value as `History` has it."""
    if isinstance(state, ValueState):
        return list(state.value())
    if isinstance(state, MapState):
        return sorted([key, value] for key, value in state.items())
    if isinstance(state, ListState):
        return list(state.get())
    return list(state.get())


async def ask(client: QueryableStateClient, state: str, key: str) -> Read:
    """One query; every exception is an answer, too."""
    started = time.time()
    try:
        found = await client.get_kv_state(JOB_NAME, state, key)
        ended = time.time()
    except UnknownKeyOrNamespaceError:
        return Read(state=state, key=key, started=started, ended=time.time(), value=MISSING)
    except Exception as refusal:  # noqa: BLE001 - the checker judges its class
        return Read(
            state=state,
            key=key,
            started=started,
            ended=time.time(),
            error=type(refusal).__name__,
            message=str(refusal),
        )
    return Read(
        state=state,
        key=key,
        started=started,
        ended=ended,
        version=found.info.version,
        value=plain(found),
        server=found.info.server_id,
    )


async def ask_all(client: QueryableStateClient, states: Sequence[str]) -> list[Read]:
    """Queries of every key of these states, all at once."""
    return await asyncio.gather(
        *(ask(client, state, key) for state in states for key in History.keys_of(state))
    )


async def read_on(servers: Path, states: Sequence[str], out: TextIO, *, direct: bool) -> None:
    """Asks again and again, by one client after the other."""
    while True:
        told = addresses(servers)
        if not told:
            await asyncio.sleep(_PAUSE_S)
            continue
        async with client_of(random.choice(told), direct=direct) as client:
            refused = 0.0
            while refused <= 0.5:
                reads = await ask_all(client, states)
                out.write(to_lines(reads))
                out.flush()
                refused = sum(read.refused for read in reads) / len(reads)
                await asyncio.sleep(_PAUSE_S)


async def read_until_told(servers: Path, states: Sequence[str], out: TextIO) -> None:
    """Two readers until standard input ends."""
    readers = [
        asyncio.create_task(read_on(servers, states, out, direct=direct))
        for direct in (True, False)
    ]
    told = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    done, _ = await asyncio.wait([*readers, told], return_when=asyncio.FIRST_COMPLETED)
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    for task in done:
        task.result()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", type=Path, required=True)
    parser.add_argument("--states", default=TOTALS)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    with options.out.open("a") as out:
        asyncio.run(read_until_told(options.servers, options.states.split(","), out))


if __name__ == "__main__":
    main()
