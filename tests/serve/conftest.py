"""Checkpoints and savepoints of a job that ended, written by real servers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from tests.checkpoint.conftest import s3_endpoint, s3_options
from tests.grpcurl.conftest import grpcurl
from tests.state_server.conftest import gate
from tests.waiting import DEADLINE_S

from queryable_state.client import QueryableStateClient
from queryable_state.server.checkpoint_server.server import CheckpointServer
from queryable_state.server.coordinator import JobConfig
from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings
from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.v1 import query_pb2_grpc, registration_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from contextlib import AbstractAsyncContextManager
    from pathlib import Path

    from queryable_state.server.testing.cluster import InProcessJob

# Fixtures of others, which tests here ask for.
__all__ = ["gate", "grpcurl", "s3_endpoint", "s3_options"]

SENSORS = 200


@dataclass(frozen=True)
class Ended:
    """What a job left: a state root with two checkpoints, and a savepoint of the newer batch."""

    job_id: str
    root: Path
    savepoint: Path
    newest_id: int
    """Of the newer checkpoint; the one before has the number before."""

    @property
    def newest(self) -> Path:
        """Folder of the newer checkpoint, of batch 1."""
        return self.root / f"chk-{self.newest_id}"

    @property
    def older(self) -> Path:
        """Folder of the older one, of batch 0."""
        return self.root / f"chk-{self.newest_id - 1}"


@pytest.fixture(params=["heap", "rocksdb"])
def backend(request: pytest.FixtureRequest) -> str:
    """Of the job."""
    return str(request.param)


@pytest.fixture
async def ended(backend: str, tmp_path: Path) -> Ended:
    """The job "sensors": batch 0 and its checkpoint, batch 1, a checkpoint and a savepoint."""
    config = JobConfig(backend=backend, inline_bytes=200)
    async with InProcessCluster(tmp_path / "cluster", servers=2, config=config) as cluster:
        job = cluster.job(
            "sensors",
            declare("last", "string", "double"),
            declare("seen", "string", "string", kind=registration_pb2.LIST),
            declare("counts", "string", "bigint", kind=registration_pb2.MAP, map_key_type="string"),
            durable=True,
        )
        values = {f"sensor_{number}": float(number) for number in range(SENSORS)}
        await job.run(0, {"last": values, "seen": {"sensor_1": ["a"]}})
        await checkpoint_of(job, 0)
        await job.run(
            1,
            {
                "last": {"sensor_1": 71.5},
                "seen": {"sensor_1": ["b"]},
                "counts": {"sensor_1": {"x": 1, "y": 2}},
            },
        )
        newest = await checkpoint_of(job, 1)
        uri, version = await asyncio.to_thread(
            cluster.coordinator.coordinator.trigger_savepoint,
            job.job_id,
            str(tmp_path / "savepoints"),
            timeout_s=DEADLINE_S,
        )
        assert version == 1
        savepoint = tmp_path / "savepoints" / uri.rpartition("/")[2]
        return Ended(job.job_id, job.root, savepoint, newest)


async def checkpoint_of(job: InProcessJob, batch_id: int) -> int:
    """Takes checkpoints until one is of the batch: servers know a commit before its books do."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            taken = await job.checkpoint()
            if taken.version == batch_id:
                return taken.checkpoint_id


@pytest.fixture
def serving(tmp_path: Path) -> Callable[..., AbstractAsyncContextManager[CheckpointServer]]:
    """Makes a server of a URI, on a free port."""

    def serve(uri: object, **settings: Any) -> CheckpointServer:
        (tmp_path / "served").mkdir(exist_ok=True)
        fields: dict[str, Any] = {
            "checkpoint": str(uri),
            "ports": "0",
            "frame_ports": "0",
            "directory": str(tmp_path / "served"),
            "drain_timeout_s": 0.2,
        }
        return CheckpointServer(CheckpointServerSettings(**(fields | settings)))

    return serve


@pytest.fixture
async def server(
    ended: Ended, serving: Callable[..., CheckpointServer]
) -> AsyncIterator[CheckpointServer]:
    """A server of the newer checkpoint."""
    async with serving(ended.newest) as running:
        yield running


@pytest.fixture
async def client(server: CheckpointServer) -> AsyncIterator[QueryableStateClient]:
    """A client of that server."""
    host, _, port = server.address.rpartition(":")
    async with QueryableStateClient(host, int(port), timeout_s=20.0) as connected:
        yield connected


@pytest.fixture
async def stub(server: CheckpointServer) -> AsyncIterator[Any]:
    """The service as its protos have it."""
    async with grpc.aio.insecure_channel(server.address) as channel:
        yield query_pb2_grpc.QueryableStateStub(channel)
