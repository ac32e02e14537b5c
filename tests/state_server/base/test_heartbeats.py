"""The lease does not depend on the event loop that answers everybody."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from queryable_state.server.state_server.base.lease import Lease
from queryable_state.server.testing.cluster import InProcessCluster, declare

if TYPE_CHECKING:
    from pathlib import Path

LEASE_MS = 600
HELD_S = 2.0


async def test_the_lease_is_kept_while_the_event_loop_stands_still(tmp_path: Path) -> None:
    async with InProcessCluster(tmp_path, lease_ms=LEASE_MS) as cluster:
        job = cluster.job("sensors", declare("last"))
        await job.run(0, {"last": {"a": 1}})
        [server] = cluster.servers
        # The answer of a turn that the loop has taken: from then on no owner changes.
        await server.renew_lease()
        asked_at_s = server.lease.now_s()
        time.sleep(HELD_S)  # noqa: ASYNC251 - the loop that is held
        # Before the loop has turned again.
        assert server.lease.holds()
        assert asked_at_s + LEASE_MS / 1000 < server.lease.now_s()
        assert cluster.coordinator.coordinator.proxy_addresses() == [server.addresses.proxy]
        await job.run(1, {"last": {"a": 2}})


async def test_a_server_that_is_held_while_owners_change_renews_nothing_by_itself(
    tmp_path: Path,
) -> None:
    """What it has lost is dropped by its loop, in the turn in which the lease goes on."""
    async with InProcessCluster(tmp_path, servers=2, lease_ms=LEASE_MS) as cluster:
        job = cluster.job("sensors", declare("last"), durable=True)
        await job.run(0, {"last": {"a": 1, "b": 2}})
        first, second = cluster.servers
        await first.renew_lease()
        # The other one leaves, and with it its ranges: their owner is another one from here on.
        await cluster.stop_server(second)
        version = first.lease.placement_version
        time.sleep(HELD_S)  # noqa: ASYNC251 - the loop that is held
        assert first.lease.placement_version == version
        async with asyncio.timeout(20):
            while not first.lease.holds():  # noqa: ASYNC110
                await asyncio.sleep(0.05)


def test_a_renewal_asked_for_before_the_lease_was_given_up_comes_too_late() -> None:
    now_s = 0.0
    lease = Lease(clock=lambda: now_s)
    asked_at_s = lease.now_s()
    now_s = 1.0
    lease.end()
    lease.renew(asked_at_s, 60_000, 1)
    assert not lease.holds()
    lease.renew(lease.now_s(), 60_000, 1)
    assert lease.holds()
