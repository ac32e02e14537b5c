"""Subtasks that change broadcast state differently are reported when the batch is committed."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.v1 import registration_pb2

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

RULES = declare("rules", value_type="int", kind=registration_pb2.BROADCAST, map_key_type="string")
UNION = declare("own", value_type="int", kind=registration_pb2.OPERATOR_UNION)


async def test_equal_changes_are_no_divergence_and_others_are(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with InProcessCluster(tmp_path, servers=2) as cluster:
        job = cluster.job("rules", RULES, UNION, parallelism=3)
        with caplog.at_level(logging.ERROR):
            rules = {"rules": {index: {"a": 1, "b": 2} for index in range(3)}}
            await job.run(0, {**rules, "own": {0: [1], 1: [2]}})
            await job.run(1, {})
            await job.run(2, {"rules": {index: {} for index in range(3)}})
            await job.run(3, {})
            assert "broadcast state" not in caplog.text
            await job.run(4, {"rules": {0: {"a": 1}, 1: {"a": 1}}})
            await job.run(5, {})
    assert "batch 4: broadcast state was changed differently by the subtasks 0, 1 and 2" in (
        caplog.text
    )
