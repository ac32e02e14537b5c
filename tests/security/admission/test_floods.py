"""The bounds between a job and its queries: neither starves the other on one state server.

The state server, the flood and the client that measures are processes of their own.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.hostile.attack import frame_port, state_id_of
from tests.hostile.driver import Cluster

from queryable_state.server.testing.cluster import declare

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from queryable_state.server.testing.cluster import InProcessJob

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
FLOOD_S = 6.0
# Far below the lease and the timeouts of tasks; a batch takes some milliseconds without a flood.
LONGEST_BATCH_S = 5.0
LONGEST_ANSWER_MS = 1_000.0
LARGE_BATCH = 50_000


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[Cluster]:
    async with Cluster(tmp_path, lease_ms=3_000) as running:
        yield running


@pytest.fixture
async def job(cluster: Cluster) -> InProcessJob:
    started = cluster.job("sensors", declare("last", "string", "double"))
    await started.run(0, {"last": {f"sensor_{number}": float(number) for number in range(200)}})
    return started


async def process(*command: str) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", *command, cwd=ROOT, stdin=pipe, stdout=pipe
    )


async def test_a_flood_of_queries_does_not_stop_the_commits_of_the_job(
    cluster: Cluster, job: InProcessJob
) -> None:
    addresses = cluster.servers[0].addresses
    public = [addresses.query, addresses.proxy]
    targets = {
        "public": public,
        "internal": [],
        "frames": await asyncio.to_thread(lambda: [frame_port(each) for each in public]),
        "state": "last",
        "large_id": await asyncio.to_thread(state_id_of, addresses.query, "sensors", "last"),
    }
    flood = await process("tests.hostile.attacks", json.dumps(targets))
    ended = asyncio.create_task(flood.communicate(f"flood {FLOOD_S}\n".encode()))
    durations: list[float] = []
    while not ended.done():
        begun_s = time.monotonic()
        number = len(durations) + 1
        await job.run(number, {"last": {f"sensor_{at}": float(number) for at in range(100)}})
        durations.append(time.monotonic() - begun_s)
    answers = json.loads((await ended)[0])
    assert answers["bytes"] > 1_000_000, answers
    assert len(durations) >= 10
    assert max(durations) < LONGEST_BATCH_S


async def test_large_commits_do_not_stop_the_queries(cluster: Cluster, job: InProcessJob) -> None:
    address = cluster.servers[0].addresses.proxy
    witness = await process("tests.hostile.witness", address)
    assert witness.stdin is not None
    assert witness.stdout is not None

    async def seen() -> dict[str, Any]:
        witness.stdin.write(b"\n")  # type: ignore[union-attr]
        told: dict[str, Any] = json.loads(await witness.stdout.readline())  # type: ignore[union-attr]
        return told[address]  # type: ignore[no-any-return]

    try:
        while not (await seen())["answers"]:  # noqa: ASYNC110 - of another process
            await asyncio.sleep(0.1)
        values = {f"other_{number}": float(number) for number in range(LARGE_BATCH)}
        for number in range(1, 5):
            await job.run(number, {"last": values})
        found = await seen()
        assert not found["errors"]
        assert found["answers"] > 10
        assert found["worst_ms"] < LONGEST_ANSWER_MS
    finally:
        witness.stdin.close()
        await witness.wait()
