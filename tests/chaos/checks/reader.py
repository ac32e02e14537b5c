"""The reader of a round: asks for every key, all the time, and writes down what it is told.

It knows what a dashboard may know: the folders in which state servers say where they listen, and
which batches Spark has committed. It has a client that goes to the owners and one that stays on
proxies, and takes another server whenever most of its queries are refused. Each asks for every
value at once, and beside them questions of every kind. Ends when its standard input does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

os.environ.setdefault("GRPC_EXPERIMENTS", "-event_engine_client,-event_engine_listener")

from tests.chaos.checks.asker import Asker
from tests.chaos.checks.reads import Read, to_lines
from tests.chaos.history.history import History
from tests.chaos.jobs.workload import TOTALS
from tests.chaos.site import newest_batch

from queryable_state.client import QueryableStateClient

if TYPE_CHECKING:
    from collections.abc import Sequence

TIMEOUT_S = 2.0
_PAUSE_S = 0.1
_OTHERS = 20
"""Questions of every kind beside those for every value."""


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


async def ask_all(asker: Asker, states: Sequence[str]) -> list[Read]:
    """Queries of every key of these states, all at once."""
    return await asyncio.gather(
        *(asker.value(state, key) for state in states for key in History.keys_of(state))
    )


async def read_on(options: Options, out: TextIO, *, direct: bool) -> None:
    """Asks again and again, by one client after the other."""
    chance = random.Random()
    while True:
        told = addresses(options.servers)
        if not told:
            await asyncio.sleep(_PAUSE_S)
            continue
        async with client_of(chance.choice(told), direct=direct) as client:
            asker = Asker(
                client,
                options.states,
                chance,
                committed=lambda: newest_batch(options.commits),
            )
            refused = 0.0
            while refused <= 0.5:
                reads, *others = await asyncio.gather(
                    ask_all(asker, options.states), *(asker.ask() for _ in range(_OTHERS))
                )
                out.write(to_lines(reads + [read for some in others for read in some]))
                out.flush()
                refused = sum(read.refused for read in reads) / len(reads)
                await asyncio.sleep(_PAUSE_S)


async def read_until_told(options: Options, out: TextIO) -> None:
    """Two readers until standard input ends."""
    readers = [
        asyncio.create_task(read_on(options, out, direct=direct)) for direct in (True, False)
    ]
    told = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    done, _ = await asyncio.wait([*readers, told], return_when=asyncio.FIRST_COMPLETED)
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    for task in done:
        task.result()


class Options(argparse.Namespace):
    """The reader's arguments."""

    servers: Path
    """Where state servers have their folders."""
    commits: Path
    """Spark's log of commits."""
    states: tuple[str, ...]
    out: Path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--servers", type=Path, required=True)
    parser.add_argument("--commits", type=Path, required=True)
    parser.add_argument("--states", type=lambda names: tuple(names.split(",")), default=(TOTALS,))
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args(namespace=Options())
    with options.out.open("a") as out:
        asyncio.run(read_until_told(options, out))


if __name__ == "__main__":
    main()
