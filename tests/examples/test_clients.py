"""The programs of examples/clients, built and run against a job, if their tools are installed."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from queryable_state.server.testing.cluster import InProcessCluster, declare

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# Building them takes long, and downloads packages.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]

_ROOT = Path(__file__).parents[2]
_PROTOS = _ROOT / "proto"

BUILDS = {
    "go": ["./generate.sh", "go build -o example ."],
    "java": [f"mvn -q -B -Dprotos={_PROTOS} package"],
    "node": ["npm ci --no-audit --no-fund"],
}
COMMANDS = {
    "go": ["./example"],
    "java": ["java", "-cp", "target/example.jar:target/lib/*", "example.Example"],
    "node": ["node", "example.mjs"],
}
TOOLS = {"go": ("go",), "java": ("mvn", "javac"), "node": ("node", "npm")}


@pytest.fixture
async def cluster(tmp_path: Path) -> AsyncIterator[InProcessCluster]:
    """A job named sensors on two servers."""
    async with InProcessCluster(tmp_path / "cluster", servers=2) as running:
        job = running.job("sensors", declare("last", "string", "double"))
        await job.run(0, {})
        await job.run(1, {"last": {f"sensor_{number}": float(number) for number in range(100)}})
        yield running


async def run(*command: str, folder: Path) -> tuple[int, str, str]:
    """The exit code and the output of a command."""
    environment = os.environ | {"PROTOS": str(_PROTOS), "PYTHON": sys.executable}
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=folder,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, complaint = await process.communicate()
    assert process.returncode is not None
    return process.returncode, out.decode(), complaint.decode()


@pytest.mark.parametrize("language", sorted(BUILDS))
async def test_a_program_of_plain_grpc(
    language: str, cluster: InProcessCluster, tmp_path: Path
) -> None:
    """Looks up keys on a proxy, scans, and names the reason of a refusal."""
    missing = [tool for tool in TOOLS[language] if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}")
    built = {"bin", "gen", "node_modules", "target"}
    folder = tmp_path / language
    shutil.copytree(
        _ROOT / "examples" / "clients" / language,
        folder,
        ignore=lambda _, names: built & set(names),
    )
    for build in BUILDS[language]:
        code, out, complaint = await run(*build.split(), folder=folder)
        assert code == 0, f"{build}: {out}{complaint}"

    address = cluster.servers[0].addresses.proxy
    found = await run(*COMMANDS[language], address, "last", "sensor_1", "nobody", folder=folder)
    assert found[0] == 0, found
    first, second, scanned = found[1].splitlines()
    assert re.fullmatch(r"sensor_1 = 1\.0 \(batch 1, \d+ s old\)", first)
    assert second == "nobody: nothing is stored"
    assert scanned == "scan: 100 keys, complete: true"

    code, out, complaint = await run(*COMMANDS[language], address, "lost", "x", folder=folder)
    assert (code, out) == (1, "")
    assert "UNKNOWN_STATE: no queryable state 'lost'" in complaint
