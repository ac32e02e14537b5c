"""A real grpcurl, and a cluster of two state servers with two jobs for it to ask."""

from __future__ import annotations

import asyncio
import json
import shutil
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.waiting import DEADLINE_S

from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.v1 import registration_pb2
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from queryable_state.server.testing.cluster import InProcessJob

SERVICE = "queryable_state.v1.QueryableState"
DATE = date(2013, 1, 31)


@dataclass(frozen=True)
class Shown:
    """What a person sees of one call."""

    exit_code: int
    output: str
    """Standard output."""
    complaint: str
    """Standard error."""

    @property
    def json(self) -> Any:
        """The answer; fails the test where there was none."""
        assert self.exit_code == 0, self.complaint
        return json.loads(self.output)


@dataclass(frozen=True)
class Grpcurl:
    """The executable; each call is a process without a deadline of its own."""

    path: str

    async def __call__(self, *arguments: str) -> Shown:
        process = await asyncio.create_subprocess_exec(
            self.path,
            "-plaintext",
            *arguments,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            async with asyncio.timeout(DEADLINE_S):
                output, complaint = await process.communicate()
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
        return Shown(process.returncode or 0, output.decode(), complaint.decode())

    async def ask(self, address: str, method: str, **request: object) -> Shown:
        """Calls a method of the query service with a request written as JSON."""
        return await self("-d", json.dumps(request), address, f"{SERVICE}/{method}")


@pytest.fixture(scope="session")
def grpcurl() -> Grpcurl:
    built = Path(__file__).parents[2] / ".venv" / "bin" / "grpcurl"
    path = shutil.which("grpcurl") or (str(built) if built.exists() else None)
    if path is None:
        pytest.skip("no grpcurl on PATH or in .venv/bin: scripts/install_grpcurl.sh builds one")
    return Grpcurl(path)


@pytest.fixture(params=[False, True], ids=["grpc core", "grpc.aio"])
async def cluster(
    tmp_path: Path, request: pytest.FixtureRequest
) -> AsyncIterator[InProcessCluster]:
    """Two state servers, on both servers of gRPC: reflection and health included."""
    async with InProcessCluster(tmp_path, servers=2, plain_grpc=request.param) as running:
        yield running


@pytest.fixture
async def sensors(cluster: InProcessCluster) -> InProcessJob:
    """A job named sensors, at batch 1, with states and keys of many types."""
    job = cluster.job(
        "sensors",
        declare("last", "string", "double"),
        declare("statistics", "string", "struct<readings:bigint,label:string>"),
        declare("counts", "string", "bigint", kind=registration_pb2.MAP, map_key_type="string"),
        declare("seen", "string", "string", kind=registration_pb2.LIST),
        declare("model", "bigint", Types.PICKLED_BYTE_ARRAY()),
        declare("route", "struct<carrier:string,flight:int>", "date"),
    )
    await job.run(0, {})
    await job.run(
        1,
        {
            "last": {f"sensor_{number}": number + 0.5 for number in range(16)},
            "statistics": {"sensor_1": (3, "ok")},
            "counts": {"sensor_1": {"a": 1, "b": 2}},
            "seen": {"sensor_1": ["x", "y"]},
            "model": {7: {"weights": [1, 2]}},
            "route": {("AA", 3): DATE},
        },
    )
    return job


@pytest.fixture
async def other(cluster: InProcessCluster) -> InProcessJob:
    """A job named other, which has a state `last`, too."""
    job = cluster.job("other", declare("last", "string", "double"))
    await job.run(0, {"last": {"sensor_1": -1.0}})
    return job
