"""Clients and servers of this tree with those of the last release, in both directions.

Each pair answers, or refuses with the typed mismatch of protocols.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.versions.old_package import installed
from tests.waiting import DEADLINE_S

from queryable_state.server.cli.driver_arguments import SECRET_VARIABLE
from queryable_state.server.testing.cluster import InProcessCluster, declare

pytestmark = [pytest.mark.slow, pytest.mark.timeout(240)]

HERE = Path(__file__).parent
ANSWERS = {
    "jobs": ["sensors"],
    "states": ["last"],
    "found": [1.5, 2.5, None],
    "again": [1.5, 2.5, None],
    "scanned": [["a", 1.5], ["b", 2.5]],
}
REFUSAL = "PROTOCOL_MISMATCH"


@pytest.fixture(scope="module")
def old_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return installed(tmp_path_factory.mktemp("old"))


def environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


async def asked(python: Path | str, address: str) -> dict[str, Any]:
    """What a client of another environment is answered at an address."""
    host, _, port = address.rpartition(":")
    process = await asyncio.create_subprocess_exec(
        str(python),
        *(str(HERE / "asking_program.py"), host, port),
        stdout=asyncio.subprocess.PIPE,
        env=environment(),
        cwd="/",
    )
    async with asyncio.timeout(DEADLINE_S):
        output, _ = await process.communicate()
    told: dict[str, Any] = json.loads(output)
    return told


def check(told: dict[str, Any]) -> None:
    """Answers by every route, or the typed refusal."""
    if told.get("refused"):
        assert told["refused"] == REFUSAL
    else:
        assert told["proxied"] == told["direct"] == ANSWERS


async def test_an_old_client_asks_a_new_proxy_and_a_new_server(
    old_python: Path, tmp_path: Path
) -> None:
    async with InProcessCluster(tmp_path) as cluster:
        job = cluster.job("sensors", declare("last", "string", "double"))
        await job.run(0, {"last": {"a": 1.5, "b": 2.5}})
        await job.run(1, {"last": {}})
        proxy = await cluster.add_proxy()
        for address in (proxy.address, cluster.servers[0].addresses.proxy):
            told = await asked(old_python, address)
            assert told["package"].startswith(str(old_python.parents[1]))
            check(told)


async def test_a_new_client_asks_an_old_proxy(old_python: Path, tmp_path: Path) -> None:
    serving = await asyncio.create_subprocess_exec(
        *(str(old_python), str(HERE / "serving_program.py"), str(tmp_path)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        env=environment(),
        cwd="/",
    )
    try:
        assert serving.stdout is not None
        async with asyncio.timeout(DEADLINE_S):
            line = (await serving.stdout.readline()).decode()
        ready, proxy, _, package = line.split()
        assert ready == "READY"
        assert package.startswith(str(old_python.parents[1]))
        check(await asked(sys.executable, proxy))
    finally:
        serving.kill()
        await serving.wait()


async def test_an_old_proxy_is_refused_by_a_new_driver_or_serves_it(
    old_python: Path, tmp_path: Path
) -> None:
    """Never an answer that is wrong: the typed refusal ends the command at once."""
    async with InProcessCluster(tmp_path) as cluster:
        job = cluster.job("sensors", declare("last", "string", "double"))
        await job.run(0, {"last": {"a": 1.5, "b": 2.5}})
        await job.run(1, {"last": {}})
        process = await asyncio.create_subprocess_exec(
            *(str(old_python), "-m", "queryable_state.cli", "proxy", "--port", "0"),
            *("--coordinator", cluster.coordinator.address),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=environment() | {SECRET_VARIABLE: cluster.coordinator.secret},
            cwd="/",
        )
        assert process.stdout is not None
        try:
            async with asyncio.timeout(DEADLINE_S):
                line = (await process.stdout.readline()).decode()
                if line.startswith("proxy at "):
                    check(await asked(sys.executable, line.removeprefix("proxy at ").strip()))
                else:
                    assert process.stderr is not None
                    error = (await process.stderr.read()).decode()
                    assert await process.wait() == 2
                    assert "queryable-state: " in error
                    assert "secret" in error or "upgrade" in error
                    assert "Traceback" not in error
        finally:
            if process.returncode is None:
                process.kill()
                await process.wait()
