"""Ends of programs whose clients are open, busy, or have lost their server."""

from __future__ import annotations

import asyncio
import re
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob

pytestmark = pytest.mark.slow

_TRACES = re.compile(r"Traceback|Event loop is closed|was destroyed|never retrieved|ignored in")

_HEAD = """
import asyncio, gc, sys, threading, time, warnings
from queryable_state.client import QueryableStateClient as AsyncClient, QueryableStateError
from queryable_state.client.blocking import QueryableStateClient
warnings.simplefilter("ignore", ResourceWarning)
port = int(sys.argv[1])
"""

PROGRAMS = {
    "open": """
client = QueryableStateClient("127.0.0.1", port)
client.get_kv_state("sensors", "last", "sensor_1")
""",
    "open scans": """
client = QueryableStateClient("127.0.0.1", port)
scan, batches = client.scan("sensors", "last"), client.scan("sensors", "last").arrow_batches()
next(scan), next(batches)
""",
    "closed before its scans": """
with QueryableStateClient("127.0.0.1", port) as client:
    scan, batches = client.scan("sensors", "last"), client.scan("sensors", "last").arrow_batches()
    next(scan), next(batches)
del scan, batches
gc.collect()
""",
    "nobody answers": """
client = QueryableStateClient("127.0.0.1", 1, timeout_s=0.2)
try:
    client.get_kv_state("sensors", "last", "sensor_1")
except QueryableStateError:
    pass
""",
    "busy threads": """
client = QueryableStateClient("127.0.0.1", port)
def ask():
    while True:
        try:
            client.get_kv_state("sensors", "last", "sensor_1")
        except QueryableStateError:
            return
for _ in range(10):
    threading.Thread(target=ask, daemon=True).start()
time.sleep(0.3)
""",
    "asyncio, not closed": """
async def use():
    global client, scan, pages
    client = AsyncClient("127.0.0.1", port)
    await client.get_kv_states("sensors", "last", [f"sensor_{n}" for n in range(100)])
    scan = client.scan("sensors", "last")
    pages = client.scan("sensors", "last").pages()
    await anext(aiter(scan)), await anext(pages)
asyncio.run(use())
""",
    "asyncio, three loops": """
async def use():
    async with AsyncClient("127.0.0.1", port) as client:
        await client.get_kv_state("sensors", "last", "sensor_1")
for _ in range(3):
    asyncio.run(use())
""",
}


@pytest.fixture(params=["0", ""], ids=["frames", "unary"])
def frame_ports(request: pytest.FixtureRequest) -> str:
    return str(request.param)


async def test_programs_end_without_a_trace(cluster: InProcessCluster, job: InProcessJob) -> None:
    """No closed event loop, no destroyed task, no error that nobody has seen."""
    _, _, port = cluster.servers[0].addresses.proxy.rpartition(":")

    async def output_of(program: str) -> tuple[int | None, str]:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-W", "default", "-c", _HEAD + program, port),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output, _ = await process.communicate()
        return process.returncode, output.decode()

    for name, program in PROGRAMS.items():
        code, output = await output_of(program)
        assert code == 0, f"{name}: {output}"
        assert not _TRACES.search(output), f"{name}: {output}"
