"""Withdrawn tokens at the public ports of a cluster."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from tests.query.streams import keys_of_server, values_by_position, wire_keys
from tests.security.access.sites import RULES, Asker, hello, send, token, write_rules

from queryable_state.server.security.access.tokens import digest_of
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import AuthenticationError, RetryLaterError

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.server.query.proxy.proxy_server import ProxyServer
    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob


WITHOUT_READER = RULES.replace(digest_of(token("reader")), digest_of(token("replaced")))


async def state_id_at(address: str) -> int:
    async with Asker(address, "all") as asker:
        located = await asker.ask("LocateState", job="sensors", state_name="last")
    state_id: int = located.location.registration.state_id
    return state_id


async def until_withdrawn(address: str, folder: Path) -> None:
    """Withdraws the token of `reader`; returns once the server refuses it."""
    write_rules(folder, WITHOUT_READER)
    async with Asker(address, "reader") as asker, asyncio.timeout(20):
        while await asker.status("ListJobs") != "UNAUTHENTICATED":  # noqa: ASYNC110 - a file
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("of_proxy", [True, False])
async def test_connections_end_within_a_second_of_the_new_rules(
    cluster: InProcessCluster,
    proxy: ProxyServer,
    job: InProcessJob,
    tmp_path: Path,
    of_proxy: bool,
) -> None:
    address = proxy.address if of_proxy else cluster.servers[0].addresses.query
    state_id = await state_id_at(address)
    idle, waiting, other = [
        await hello(address, f"Bearer {token(name)}") for name in ("reader", "reader", "all")
    ]
    for frames in (idle, waiting, other):
        assert (await frames.response()).WhichOneof("frame") == "hello"
    keys = wire_keys("sensor_1") if of_proxy else wire_keys(keys_of_server(cluster, 0)[0])
    for frames in (waiting, other):
        send(frames, state_id=state_id, keys=keys, min_version=1, deadline_ms=3_600_000)
    await until_withdrawn(address, tmp_path)
    withdrawn_s = time.monotonic()
    for frames in (idle, waiting):
        assert isinstance(await frames.refusal(), AuthenticationError)
    assert time.monotonic() - withdrawn_s < 2.0
    await job.run(1, {"last": {f"sensor_{number}": -1.0 for number in range(100)}})
    answer = (await other.response()).answer
    assert values_by_position([answer], 1) == {0: -1.0}
    for frames in (idle, waiting, other):
        frames.writer.close()


async def test_a_waiting_unary_call_gets_no_value_after_its_token(
    proxy: ProxyServer, job: InProcessJob, tmp_path: Path
) -> None:
    state_id = await state_id_at(proxy.address)
    query = query_pb2.Query(
        id=1, state_id=state_id, keys=wire_keys("sensor_1"), min_version=1, deadline_ms=3_600_000
    )
    async with Asker(proxy.address, "reader") as asker, Asker(proxy.address, "all") as other:
        waiting = [
            asyncio.create_task(each.ask("BatchGetKvState", query=query)) for each in (asker, other)
        ]
        await until_withdrawn(proxy.address, tmp_path)
        assert not any(task.done() for task in waiting)
        await job.run(1, {"last": {"sensor_1": -1.0}})
        # The caller of a call without its token is not known any more: it has to ask again.
        for task in waiting:
            with pytest.raises(RetryLaterError, match="access rules have changed"):
                await task
        with pytest.raises(AuthenticationError):
            await asker.ask("BatchGetKvState", query=query)
        [answer] = (await other.ask("BatchGetKvState", query=query)).answers
    assert values_by_position([answer], 1) == {0: -1.0}
