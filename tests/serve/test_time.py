"""Windows and timers of a checkpoint or savepoint, without its job."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.client.asking import client_of
from tests.client.timed.stored import FIRST, LAST, MAXIMA, OWN_TIMERS, TIMERS, timers, windows
from tests.serve.conftest import checkpoint_of

from queryable_state.client import InvalidRequestError, Role
from queryable_state.server.coordinator import JobConfig
from queryable_state.server.testing.cluster import InProcessCluster, declare, windowed
from queryable_state.v1 import registration_pb2

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from queryable_state.server.checkpoint_server.server import CheckpointServer

NAME = "operator.timers"


@pytest.mark.parametrize("savepoint", [False, True], ids=["checkpoint", "savepoint"])
async def test_they_are_read_as_of_a_running_job(
    tmp_path: Path, backend: str, savepoint: bool, serving: Callable[..., CheckpointServer]
) -> None:
    config = JobConfig(backend=backend, inline_bytes=200)
    async with InProcessCluster(tmp_path / "cluster", servers=2, config=config) as cluster:
        job = cluster.job(
            "windows",
            windowed(declare("maxima")),
            windowed(declare(NAME, kind=registration_pb2.TIMER)),
            durable=True,
        )
        await job.run(0, {})
        await job.run(1, {"maxima": windows(MAXIMA), NAME: timers(TIMERS)})
        await checkpoint_of(job, 1)
        uri: object = job.root
        if savepoint:
            uri, _ = await asyncio.to_thread(
                cluster.coordinator.coordinator.trigger_savepoint,
                job.job_id,
                str(tmp_path / "savepoints"),
                timeout_s=20.0,
            )
    async with serving(uri) as server, client_of(server.address) as client:
        found = await client.get_windows("windows", "maxima", "sensor_1")
        assert {window: state.value() for window, state in found.items()} == MAXIMA["sensor_1"]
        assert (found.info.role, found.info.watermark_ms) == (Role.CHECKPOINT, 1)
        one = await client.get_kv_state("windows", "maxima", "sensor_0", window=FIRST)
        assert one.value() == MAXIMA["sensor_0"][FIRST]
        newest = await client.get_newest_window("windows", "maxima", "sensor_1")
        assert newest.window == LAST
        assert (await client.get_timers("windows", NAME, "sensor_1")).get() == OWN_TIMERS
        async with client.scan("windows", NAME) as scan:
            assert {key: state.get() async for key, state in scan if state is not None} == TIMERS
        with pytest.raises(InvalidRequestError, match="names no window"):
            await client.get_kv_state("windows", "maxima", "sensor_1")
