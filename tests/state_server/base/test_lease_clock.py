"""Leases end while the machine is suspended."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from queryable_state.server.lease_clock import lease_s

_AHEAD_S = 1_000_000
_PROGRAM = """
import time
from queryable_state.server.lease_clock import lease_ms
from queryable_state.server.state_server.base.lease import Lease
print(min(Lease().now_s(), lease_ms() / 1000) - time.monotonic())
"""


def test_the_clock_of_leases_only_goes_forward() -> None:
    before = lease_s()
    time.sleep(0.01)
    assert 0.01 <= lease_s() - before < 5


def test_servers_and_coordinator_count_the_time_of_a_suspension() -> None:
    """In a time namespace whose boot clock is ahead, as after a suspension of so long."""
    inside = ["unshare", "--time", "--fork", "--boottime", str(_AHEAD_S)]
    try:
        subprocess.run([*inside, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no time namespace can be made here")
    command = [*inside, sys.executable, "-c", _PROGRAM]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert float(told) >= _AHEAD_S - 1
