"""A hostile process beside the job: the attacks of `tests/hostile`, for seconds, on every port."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import grpc
from tests.chaos.jobs.driver import REPOSITORY
from tests.chaos.jobs.workload import JOB_NAME, RECENT, SHARES, TOTALS
from tests.hostile.attack import frame_port
from tests.hostile.attacks import ATTACKS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.chaos.site import Site, StateServerProcess


def hostile_neighbour(site: Site) -> str:
    """Adversarial messages to every port of the servers and of the coordinator."""
    site.a_server()
    servers = site.servers()
    name = site.chance.choice(list(ATTACKS))
    seconds = site.chance.uniform(2.0, 5.0)
    attack = subprocess.Popen(
        # It shall not win by the processors alone.
        [
            *("nice", "-n", "19", sys.executable, "-m", "tests.hostile.attacks"),
            json.dumps(targets(servers, site.coordinator)),
        ],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        # The attack is a child of this process: both are ended by their group.
        start_new_session=True,
    )
    began = time.monotonic()
    try:
        lines = attack.communicate(f"{name} {seconds}\n", seconds * 4)[0].strip().splitlines()
        # A server that does not answer may end an attack before its time.
        said = ["ended early:"] * (attack.returncode != 0) + lines[-1:]
    except subprocess.TimeoutExpired:
        # What is begun may wait for answers for long.
        os.killpg(attack.pid, signal.SIGKILL)
        attack.communicate()
        said = ["ended by us"]
    took_s = time.monotonic() - began
    return f"{name} on {len(servers)} servers for {took_s:.1f} s: {' '.join(said)[:300]}"


def targets(servers: list[StateServerProcess], coordinator: str) -> dict[str, object]:
    """Where and what is attacked, as `tests.hostile.attacks` takes it."""
    public = [address for server in servers for address in (server.query, server.proxy)]
    return {
        "public": public,
        "internal": [coordinator, *(server.backend for server in servers)],
        "frames": list(_frame_ports(public)),
        "job": JOB_NAME,
        "state": TOTALS,
        "entries": SHARES,
        "large": RECENT,
    }


def _frame_ports(addresses: list[str]) -> Iterator[str]:
    for address in addresses:
        try:
            yield frame_port(address)
        except grpc.RpcError:
            # The server went while it was asked.
            continue
