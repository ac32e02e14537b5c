"""What a client does when servers and proxies go, and state moves."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

import grpc.aio
import pytest
from tests.client.asking import client_of, until_direct
from tests.query.streams import mute_frames

from queryable_state.client import (
    PlacementError,
    QueryTimeoutError,
    Reason,
    RetryLaterError,
    StateLostError,
)
from queryable_state.server.testing.cluster import declare
from queryable_state.v1 import query_pb2, registration_pb2

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from typing import Any

    from queryable_state.server.testing.cluster import InProcessCluster, InProcessJob

KEYS = [f"sensor_{number}" for number in range(100)]


@pytest.fixture(params=["0", ""], ids=["frames", "unary"])
def frame_ports(request: pytest.FixtureRequest) -> str:
    """Both ways of look-ups."""
    ports: str = request.param
    return ports


@pytest.mark.parametrize("direct", [True, False], ids=["direct", "proxy"])
async def test_a_client_follows_state_to_its_new_owner(
    cluster: InProcessCluster, job: InProcessJob, direct: bool
) -> None:
    """A server leaves; what it had is lost for those who want it whole, and answered to others."""
    proxy = await cluster.add_proxy()
    async with client_of(proxy.address, direct=direct) as client:
        if direct:
            await until_direct(client, cluster)
        else:
            await client.get_kv_states("sensors", "last", KEYS)
        await cluster.stop_server(cluster.servers[1])
        await job.run(2, {"last": dict.fromkeys(KEYS, -1.0)})
        states = await client.get_kv_states("sensors", "last", KEYS, allow_incomplete=True)
        assert [state and state.value() for state in states] == [-1.0] * 100
        assert {state.info.complete_since_batch for state in states if state} == {2}
        with pytest.raises(StateLostError) as raised:
            await client.get_kv_states("sensors", "last", KEYS)
        assert raised.value.complete_since_batch == 2


async def test_queries_during_a_move_wait_for_it(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """Asked while nobody owns the keys, answered when somebody does."""
    proxy = await cluster.add_proxy()
    for direct in (True, False):
        async with client_of(proxy.address, direct=direct) as client:
            if len(cluster.servers) == 1:
                await cluster.add_server()
            await client.get_kv_states("sensors", "last", KEYS, allow_incomplete=True)
            await cluster.stop_server(cluster.servers[-1])
            pending = client.get_kv_states("sensors", "last", KEYS, allow_incomplete=True)
            await asyncio.sleep(0.05)
            batch = 2 if direct else 3
            await job.run(batch, {"last": dict.fromkeys(KEYS, float(batch))})
            # What is lost may be missing until the batch is committed, and says so.
            for number, state in enumerate(await pending):
                assert state is None or state.value() in (number, 2.0, 3.0)


async def test_keys_nobody_owns_fail_with_reason_and_retry_after(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """Within the caller's time, never after it."""
    proxy = await cluster.add_proxy()
    for direct in (True, False):
        async with client_of(proxy.address, direct=direct, timeout_s=0.6) as client:
            await client.get_kv_state("sensors", "last", "sensor_1", timeout_s=10)
    for server in list(cluster.servers):
        await cluster.stop_server(server)
    for direct in (True, False):
        async with client_of(proxy.address, direct=direct, timeout_s=0.6) as client:
            started = asyncio.get_running_loop().time()
            with pytest.raises((PlacementError, RetryLaterError)) as raised:
                await client.get_kv_state("sensors", "last", "sensor_1")
            assert raised.value.reason in (Reason.NO_OWNER, Reason.UNAVAILABLE)
            assert raised.value.retry_after_ms > 0
            assert asyncio.get_running_loop().time() - started < 1.5


async def test_owners_answer_on_when_the_proxy_is_gone(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """Queries, and also questions for jobs and states, which every server can answer."""
    proxy = await cluster.add_proxy()
    async with client_of(proxy.address) as client:
        await until_direct(client, cluster)
        await proxy.aclose()
        states = await client.get_kv_states("sensors", "last", KEYS)
        assert [state and state.value() for state in states] == list(range(100))
        assert (await client.get_kv_state("sensors", "maximum", "sensor_1")).get() == 99
        assert len(await client.list_jobs()) == 1


async def test_a_proxy_that_dies_is_waited_for(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """Another one on its port goes on with the queries that wait."""
    proxy = await cluster.add_proxy()
    port = proxy.address.rpartition(":")[2]
    async with client_of(proxy.address, direct=False) as client:
        await client.get_kv_state("sensors", "last", "sensor_1")
        await proxy.aclose()
        pending = client.get_kv_state("sensors", "last", "sensor_2")
        await asyncio.sleep(0.1)
        assert not pending.done()
        await cluster.add_proxy(ports=port)
        assert (await pending).value() == 2.0


async def test_a_proxy_that_stays_dead_is_a_typed_error(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    proxy = await cluster.add_proxy()
    async with client_of(proxy.address, direct=False, timeout_s=0.5) as client:
        await client.get_kv_state("sensors", "last", "sensor_1", timeout_s=10)
        await proxy.aclose()
        with pytest.raises(RetryLaterError, match=proxy.address) as raised:
            await client.get_kv_state("sensors", "last", "sensor_1")
        assert raised.value.reason == Reason.UNAVAILABLE


async def test_a_server_that_does_not_answer_costs_no_more_than_the_timeout() -> None:
    """It said hello and located the state, and then nothing."""
    async with _mute_server() as address, client_of(address, timeout_s=0.3) as client:
        started = asyncio.get_running_loop().time()
        single = client.get_kv_state("sensors", "last", "sensor_1")
        many = client.get_kv_states("sensors", "last", KEYS)
        for pending in (single, many):
            with pytest.raises((QueryTimeoutError, RetryLaterError), match=address):
                await pending
        assert asyncio.get_running_loop().time() - started < 1


@contextlib.asynccontextmanager
async def _mute_server() -> AsyncIterator[str]:
    """The address of a server that says where a state is, and never answers a query."""

    async def locate(request: Any, context: Any) -> Any:
        registration = declare("last", "string", "double")
        registration.state_id = 1
        owner = registration_pb2.RangeOwner(
            first_key_group=0,
            last_key_group=127,
            server_id="mute",
            address=address,
            frames=frames,
        )
        location = registration_pb2.StateLocation(
            registration=registration, placement_version=1, owners=[owner]
        )
        server = query_pb2.ServerDescription(server_id="mute", frames=frames)
        return query_pb2.LocateStateResponse(location=location, server=server)

    handlers = {
        "LocateState": grpc.unary_unary_rpc_method_handler(
            locate,
            request_deserializer=query_pb2.LocateStateRequest.FromString,
            response_serializer=query_pb2.LocateStateResponse.SerializeToString,
        ),
    }
    service = "queryable_state.v1.QueryableState"
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, handlers),))
    address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    async with mute_frames("mute") as frames:
        await server.start()
        try:
            yield address
        finally:
            await server.stop(0)
