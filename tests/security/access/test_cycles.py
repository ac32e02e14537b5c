"""Closed connections and refused calls leave nothing behind that only the collector would free."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING

import pytest
from tests.query.streams import wire_keys
from tests.security.access.sites import Asker, hello, send, token
from tests.waiting import eventually

from queryable_state.server.grpc_core.server_call import ServerCall
from queryable_state.server.security.access.guarded_session import GuardedSession

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.server.query.proxy.proxy_server import ProxyServer

CHECKED_EVERY_S = 0.6
"""A bit more than the interval at which open sessions are checked."""


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def alive(kind: type) -> int:
    # Not gc.get_objects: it also holds tuples that other threads fill, and fails them.
    return sum(type(each) is kind for each in gc.get_referrers(kind))


async def test_a_closed_connection_is_freed_at_once(proxy: ProxyServer, no_collector: None) -> None:
    async with Asker(proxy.address, "all") as asker:
        located = await asker.ask("LocateState", job="sensors", state_name="last")
    state_id = located.location.registration.state_id
    before = alive(GuardedSession)
    for connection in range(20):
        frames = await hello(proxy.address, f"Bearer {token('reader')}")
        await frames.response()
        send(frames, id=1, state_id=state_id, keys=wire_keys("sensor_1", "sensor_2"))
        assert (await frames.response()).WhichOneof("frame") == "answer"
        if connection == 19:
            # The check of open sessions has seen it.
            await asyncio.sleep(CHECKED_EVERY_S)
        frames.writer.close()
        await frames.writer.wait_closed()
    await eventually(lambda: alive(GuardedSession) <= before)


async def test_a_refused_call_is_freed_at_once(proxy: ProxyServer, no_collector: None) -> None:
    before = alive(ServerCall)
    async with Asker(proxy.address, None) as asker:
        refusals = [asker.status("ListJobs") for _ in range(50)]
        assert set(await asyncio.gather(*refusals)) == {"UNAUTHENTICATED"}
    # The server always waits for the next call.
    await eventually(lambda: alive(ServerCall) <= before + 1)
