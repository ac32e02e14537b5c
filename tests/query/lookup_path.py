"""The path of one warm look-up through its owner, from the arrival of the bytes to the write.

    python -m tests.query.lookup_path

prints the functions that an owner calls for one key of a value state over a frame connection.
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.query.streams import RawStream, state_id_of, wire_keys
from tests.traces import CallPath, recorded

from queryable_state.server.testing.cluster import InProcessCluster, declare

if TYPE_CHECKING:
    from queryable_state.v1 import query_pb2

# Enough to fill every cache on the way; the next one is not one of those that a server times.
_WARM = 5


async def path_of_look_up(address: str, **query: object) -> tuple[CallPath, query_pb2.Answer]:
    """The calls of the server at an address for a query that is warm, and its answer."""
    async with RawStream(address) as stream:
        for number in range(_WARM):
            await stream.ask(id=number + 1, **query)
        with recorded() as path:
            stream.send(id=_WARM + 1, **query)
            answer = await stream.answer()
    # The client by hand, too, calls functions of the wire package: before and after the server.
    calls = path.calls
    arrival = next(at for at, (_, name) in enumerate(calls) if name.endswith(".data_received"))
    last = max(at for at, (file, _) in enumerate(calls) if file.startswith("server/"))
    return CallPath(calls[arrival : last + 1]), answer


async def _print_path() -> None:
    with tempfile.TemporaryDirectory() as directory:
        async with InProcessCluster(Path(directory), servers=1) as cluster:
            job = cluster.job("sensors", declare("last", "string", "double"), parallelism=1)
            await job.run(0, {"last": {"sensor_1": 1.0}})
            path, _ = await path_of_look_up(
                cluster.servers[0].addresses.query,
                state_id=await state_id_of(cluster),
                keys=wire_keys("sensor_1"),
            )
            sys.stdout.write(f"{path}\n")


if __name__ == "__main__":
    asyncio.run(_print_path())
