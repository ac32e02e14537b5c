"""Clients over `fork`, as in servers that load the application before they fork."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from queryable_state.server.testing.cluster import InProcessCluster

PROGRAM = """
    import os, signal
    from queryable_state.client import ClientUnusableError, QueryableStateError
    from queryable_state.client.blocking import QueryableStateClient

    used = QueryableStateClient("127.0.0.1", 1, timeout_s=1)
    unused = QueryableStateClient("127.0.0.1", 1, timeout_s=1)

    def problem(client):
        try:
            client.list_jobs()
        except QueryableStateError as error:
            return type(error).__name__

    print(problem(used), flush=True)
    if os.fork() == 0:
        signal.alarm(20)
        print(problem(used), problem(unused), flush=True)
        used.close()
        print(problem(used), flush=True)
        os._exit(0)
    os.wait()
    print(problem(used), flush=True)
    used.close()
    unused.close()
"""


def test_a_client_of_the_parent_is_refused_at_once_in_the_child() -> None:
    """So is one that is opened there, because gRPC would wait for ever. The parent goes on."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(PROGRAM)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert done.stdout.split("\n") == [
        "NothingListensError",
        "ClientUnusableError ClientUnusableError",
        "ClientClosedError",
        "NothingListensError",
        "",
    ]


async def _reported(cluster: InProcessCluster, order: str) -> Any:
    program = await asyncio.create_subprocess_exec(
        sys.executable,
        # Since Python 3.12 each fork of a process with threads warns.
        "-Wignore:This process:DeprecationWarning",
        str(Path(__file__).with_name("forking_program.py")),
        cluster.servers[0].addresses.proxy,
        order,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    async with asyncio.timeout(60):
        out, problems = await program.communicate()
    assert program.returncode == 0, problems.decode()
    ours = [line for line in problems.decode().splitlines() if "fork_posix.cc" not in line]
    assert not ours
    return json.loads(out)


@pytest.mark.usefixtures("job")
async def test_every_call_of_an_inherited_client_fails_by_name(cluster: InProcessCluster) -> None:
    """At once, on each loop, and also what was pending; the parent goes on undisturbed."""
    report = await _reported(cluster, "use-first")
    assert report["wrong"] == 0
    assert report["own"] == 2.0
    assert report["after"] == ["1.0", "100", "1", "1.0"]
    for name, outcomes in report["children"].items():
        for call, outcome in outcomes.items():
            assert "ClientUnusableError" in outcome, (name, call, outcome)
            if call != "pending":
                assert "this process was forked from pid" in outcome
    assert {name: len(calls) for name, calls in report["children"].items()} == {
        "inside": 9,
        "same loop": 9,
        "new loop": 8,
        "blocking": 2,
    }


@pytest.mark.usefixtures("job")
async def test_a_child_of_a_process_that_used_no_client_opens_its_own(
    cluster: InProcessCluster,
) -> None:
    report = await _reported(cluster, "fork-first")
    assert report["parent"] == report["child"] == {"value": "7.0"}
