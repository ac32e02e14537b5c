"""A checkpoint server with an access file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.query.streams import wire_keys
from tests.security.access.sites import Asker, write_rules

from queryable_state.server.checkpoint_server.server import CheckpointServer
from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings
from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.v1 import query_pb2

if TYPE_CHECKING:
    from pathlib import Path

NAMED = {"job": "sensors", "state_name": "last"}


async def test_a_checkpoint_is_served_to_those_who_may_read_the_state(tmp_path: Path) -> None:
    async with InProcessCluster(tmp_path / "cluster") as cluster:
        job = cluster.job("sensors", declare("last", "string", "double"), durable=True)
        await job.run(0, {"last": {"sensor_1": 71.5}})
        await job.checkpoint()
        root = str(job.root)
    settings = CheckpointServerSettings(
        checkpoint=root, ports="0", frame_ports="0", access=write_rules(tmp_path)
    )
    async with CheckpointServer(settings) as server:
        async with Asker(server.address, "reader") as asker:
            read = await asker.ask("GetKvState", **NAMED, key_json='"sensor_1"')
            assert read.value_json == "71.5"
            located = await asker.ask("LocateState", **NAMED)
            query = query_pb2.Query(
                state_id=located.location.registration.state_id, keys=wire_keys("sensor_1")
            )
            assert await asker.status("BatchGetKvState", query=query) == "OK"
            assert await asker.status("ScanKvState", **NAMED) == "PERMISSION_DENIED"
        async with Asker(server.address, "lister") as asker:
            assert await asker.status("BatchGetKvState", query=query) == "PERMISSION_DENIED"
            query.state_id += 1
            assert await asker.status("BatchGetKvState", query=query) == "PERMISSION_DENIED"
        async with Asker(server.address, None) as asker:
            assert await asker.status("ListJobs") == "UNAUTHENTICATED"
