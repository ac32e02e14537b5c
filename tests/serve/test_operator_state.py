"""Operator state of a checkpoint or savepoint, without its job."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.client.asking import client_of
from tests.operator_state.test_reads import FIRST, RULES, STATES

from queryable_state.client import Role
from queryable_state.server.coordinator import JobConfig
from queryable_state.server.testing.cluster import InProcessCluster

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from queryable_state.server.checkpoint_server.server import CheckpointServer


@pytest.mark.parametrize("savepoint", [False, True], ids=["checkpoint", "savepoint"])
async def test_it_is_read_by_subtask_and_whole(
    tmp_path: Path, backend: str, savepoint: bool, serving: Callable[..., CheckpointServer]
) -> None:
    config = JobConfig(backend=backend, inline_bytes=200)
    async with InProcessCluster(tmp_path / "cluster", servers=2, config=config) as cluster:
        job = cluster.job("sensors", *STATES, parallelism=3, durable=True)
        await job.run(0, FIRST)
        if savepoint:
            trigger = cluster.coordinator.coordinator.trigger_savepoint
            folder = str(tmp_path / "savepoints")
            uri, _ = await asyncio.to_thread(trigger, job.job_id, folder, timeout_s=20.0)
        else:
            taken = await job.checkpoint()
            uri = str(job.root / f"chk-{taken.checkpoint_id}")
    async with serving(uri) as server, client_of(server.address) as client:
        whole = await client.get_operator_state("sensors", "offsets")
        assert [each.value for each in whole] == [[1, 2], [3], []]
        assert (whole.info.role, whole.info.version) == (Role.CHECKPOINT, 0)
        assert (await client.get_operator_state(None, "seen", 1)).get() == ["b"]
        assert (await client.get_operator_state("sensors", "rules")).get() == RULES
