"""The process of a driver without Spark: a coordinator, a job, and one state server process.

    python -m tests.hostile.driver FOLDER [ACCESS_FILE]

It prints where everything listens as JSON, and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from queryable_state.server.coordinator import JobConfig
from queryable_state.server.security.access.access_settings import AccessSettings
from queryable_state.server.serving.listen_settings import ANY_PORTS
from queryable_state.server.state_server.launch import ensure_server
from queryable_state.server.state_server.settings import StateServerSettings
from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.v1 import registration_pb2

if TYPE_CHECKING:
    from queryable_state.server.state_server.server import StateServer

SENSORS = 200
LARGE_KEYS = 64
LARGE_BYTES = 10_000


class Cluster(InProcessCluster):
    """Its state servers are processes."""

    def __init__(self, folder: Path, *, access_file: str = "", **options: Any) -> None:
        super().__init__(folder, **options)
        self._access = AccessSettings(access_file=access_file)

    async def add_server(self, *, executor_id: str = "executor-1") -> StateServer:
        settings = StateServerSettings(
            coordinator_address=self.coordinator.address,
            secret=self.coordinator.secret,
            executor_id=executor_id,
            directory=str(self._directory / executor_id),
            ports=ANY_PORTS,
            drain_timeout_s=0.2,
            access=self._access,
        )
        directory = Path(settings.directory)
        addresses = await asyncio.to_thread(ensure_server, directory, settings)
        # What a job of an in-process cluster asks its servers: the table is in the other process.
        server: Any = SimpleNamespace(
            addresses=addresses, table=SimpleNamespace(job=lambda _query_id: None)
        )
        self.servers.append(server)
        self.coordinator.engine.set_executors(1)
        return server  # type: ignore[no-any-return]


async def main(folder: Path, access_file: str = "") -> None:
    """Runs until standard input ends."""
    config = JobConfig(backend="rocksdb")
    async with Cluster(folder, access_file=access_file, config=config, lease_ms=3_000) as cluster:
        job = cluster.job(
            "sensors",
            declare("last", "string", "double"),
            declare("large", "string", "string"),
            declare("counts", "string", "bigint", kind=registration_pb2.MAP, map_key_type="string"),
            durable=True,
        )
        await job.run(
            0,
            {
                "last": {f"sensor_{number}": float(number) for number in range(SENSORS)},
                "large": {f"sensor_{number}": "x" * LARGE_BYTES for number in range(LARGE_KEYS)},
                "counts": {"sensor_1": {f"entry {number}": number for number in range(20_000)}},
            },
        )
        await job.checkpoint()
        sys.stdout.write(
            json.dumps(
                {
                    "coordinator": cluster.coordinator.address,
                    "secret": cluster.coordinator.secret,
                    "root": str(job.root),
                    "server": asdict(cluster.servers[0].addresses),
                }
            )
            + "\n"
        )
        sys.stdout.flush()
        await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
