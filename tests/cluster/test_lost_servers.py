"""What the coordinator's log says of a state server that is lost and replaced."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from queryable_state.server.testing.cluster import InProcessCluster, declare

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


async def test_a_server_that_is_replaced_is_one_line_of_info(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with InProcessCluster(tmp_path, servers=2) as cluster:
        job = cluster.job("sensors", declare("last", "string", "double"), durable=True)
        await job.run(0, {"last": {f"sensor_{number}": 1.0 for number in range(100)}})
        lost = cluster.servers[0]
        caplog.clear()
        caplog.set_level(logging.INFO)
        await cluster.respawn_server(lost)
        for batch_id in (1, 2, 3):
            await job.run(batch_id, {"last": {"sensor_1": float(batch_id)}})
    told = [
        record
        for record in caplog.records
        if record.name.startswith("queryable_state.server.coordinator")
        and (lost.server_id in record.message or record.levelno > logging.INFO)
    ]
    (line,) = told
    assert line.levelno == logging.INFO
    assert f"in place of {lost.server_id}, which is lost" in line.message
