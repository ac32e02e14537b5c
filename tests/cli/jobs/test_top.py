"""`queryable-state top`."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from queryable_state.cli.commands import top

if TYPE_CHECKING:
    import pytest
    from tests.cli.conftest import Terminal

    from queryable_state.server.testing.cluster import InProcessJob


async def test_one_view_of_a_job(terminal: Terminal, job: InProcessJob) -> None:
    job.rows = {"sensor_3": 500}
    await job.run(2, {"last": {f"sensor_{number}": 1.0 for number in range(30)}})
    ran = await terminal.run("top", "sensors", "--once")
    assert ran.exit_code == 0
    assert ran.lines[0].startswith("sensors: ")
    text = ran.out
    for word in ("rows/s", "commit", "HELD", "touched by", "sensor_3"):
        assert word in text
    [size] = [line for line in ran.lines if line.split()[:2] == ["last", "30"]]
    assert size.split()[2] == "30"


async def test_one_view_as_json(terminal: Terminal, job: InProcessJob) -> None:
    found = (await terminal.run("top", "--once", "--json")).json
    assert found["job"]["info"]["name"] == "sensors"
    assert found["sizes"]["seen"]["keys"] == 1
    assert len(found["servers"]) == 2
    assert {key["side"] for key in found["hot_keys"]["keys"]} == {"WRITE"}


async def test_the_view_is_refreshed(
    terminal: Terminal, job: InProcessJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Until it is interrupted."""
    monkeypatch.setattr(top, "_REFRESH_S", 0.01)
    running = asyncio.create_task(terminal.run("top", "sensors", "--json"))
    lines: list[str] = []
    async with asyncio.timeout(30):
        while len(lines) < 3:
            await asyncio.sleep(0.05)
            lines += terminal.printed().splitlines()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert {json.loads(line)["job"]["info"]["name"] for line in lines} == {"sensors"}
