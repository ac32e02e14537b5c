"""Servers that are told to end while clients ask them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.client.asking import client_of, until_direct
from tests.query.proxy.commands import started_proxy
from tests.query.proxy.under_way import Asking
from tests.query.streams import RawStream, state_id_of, wire_keys
from tests.waiting import DEADLINE_S

from queryable_state.server.testing.cluster import InProcessCluster, declare
from queryable_state.v1 import query_pb2, query_pb2_grpc
from queryable_state.wire.errors import QueryableStateError, Reason
from queryable_state.wire.status import error_from_call

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.client import QueryableStateClient
    from queryable_state.server.testing.cluster import InProcessJob

KEYS = [f"sensor_{number}" for number in range(100)]

BOTH_WAYS = pytest.mark.parametrize("frame_ports", ["0", ""], ids=["frames", "unary"])

# A balancer of gRPC's own: every address in turn, but those whose health says no.
SERVICE_CONFIG = json.dumps(
    {
        "loadBalancingConfig": [{"round_robin": {}}],
        "healthCheckConfig": {"serviceName": "queryable_state.v1.QueryableState"},
    }
)


class Balancer:
    """Hands out channels in turn, those whose server said SERVING when it was asked last."""

    def __init__(self, channels: list[grpc.aio.Channel]) -> None:
        self._channels = channels
        self._healthy: list[grpc.aio.Channel] = []
        self._found = asyncio.Event()
        self._turn = 0

    async def pick(self) -> grpc.aio.Channel:
        await self._found.wait()
        self._turn += 1
        return self._healthy[self._turn % len(self._healthy)]

    async def look(self) -> None:
        while True:
            self._healthy = [each for each in self._channels if await self._serves(each)]
            self._found.set()
            await asyncio.sleep(0.2)

    async def _serves(self, channel: grpc.aio.Channel) -> bool:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        try:
            answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=DEADLINE_S)
        except grpc.aio.AioRpcError:
            return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


async def test_a_plain_client_behind_a_balancer_sees_no_failed_call(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """Two proxies; the one that gets SIGTERM ends while calls go on without a pause."""
    async with (
        started_proxy(cluster, "--lame-duck", "1") as first,
        started_proxy(cluster, "--lame-duck", "1") as second,
    ):
        target = f"ipv4:{first.address},{second.address}"
        options = [("grpc.service_config", SERVICE_CONFIG), ("grpc.enable_retries", 0)]
        async with grpc.aio.insecure_channel(target, options=options) as channel:
            stub: Any = query_pb2_grpc.QueryableStateStub(channel)
            request = query_pb2.GetKvStateRequest(
                job="sensors", state_name="last", key_json='"sensor_7"'
            )

            async def ask() -> None:
                response = await stub.GetKvState(request, timeout=DEADLINE_S)
                assert response.value_json == "7.0"

            await channel.channel_ready()
            async with Asking(ask).under_way() as asking:
                await asking.more()
                first.process.send_signal(signal.SIGTERM)
                async with asyncio.timeout(DEADLINE_S):
                    assert await first.process.wait() == 0
                await asking.more()


@pytest.mark.slow
async def test_a_client_behind_a_balancer_that_looks_now_and_then_sees_no_failed_call(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """As most balancers do: each proxy is asked for its health five times a second."""
    async with contextlib.AsyncExitStack() as stack:
        first = await stack.enter_async_context(started_proxy(cluster, "--lame-duck", "1.5"))
        second = await stack.enter_async_context(started_proxy(cluster, "--lame-duck", "1.5"))
        channels = [
            await stack.enter_async_context(grpc.aio.insecure_channel(proxy.address))
            for proxy in (first, second)
        ]
        balancer = Balancer(channels)
        looking = asyncio.create_task(balancer.look())
        stack.callback(looking.cancel)
        request = query_pb2.GetKvStateRequest(
            job="sensors", state_name="last", key_json='"sensor_7"'
        )

        async def ask() -> None:
            stub: Any = query_pb2_grpc.QueryableStateStub(await balancer.pick())
            assert (await stub.GetKvState(request, timeout=DEADLINE_S)).value_json == "7.0"

        async with Asking(ask).under_way() as asking:
            await asking.more()
            first.process.send_signal(signal.SIGTERM)
            async with asyncio.timeout(DEADLINE_S):
                assert await first.process.wait() == 0
            await asking.more()


@BOTH_WAYS
async def test_our_client_sees_no_failed_call_when_its_proxy_ends(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """Owners answer on; before that the lame duck does."""
    proxy = await cluster.add_proxy(lame_duck_s=0.5)
    async with client_of(proxy.address) as client:
        await until_direct(client, cluster)
        async with _looking_up(client).under_way() as asking:
            await asking.more()
            proxy.shutdown.leave()
            await proxy.wait_stopped()
            await proxy.aclose()
            await asking.more()


@BOTH_WAYS
async def test_a_lame_duck_answers_those_who_have_nobody_else(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    proxy = await cluster.add_proxy(lame_duck_s=DEADLINE_S)
    async with (
        client_of(proxy.address, direct=False) as client,
        _looking_up(client).under_way() as asking,
    ):
        await asking.more()
        proxy.shutdown.leave()
        await asking.more(200)


@BOTH_WAYS
async def test_a_state_server_that_leaves_hands_its_subtasks_over_without_a_failed_call(
    cluster: InProcessCluster,
) -> None:
    """Nobody waits for its lease: the coordinator hears that it goes."""
    job = cluster.job("sensors", _last(), durable=True)
    await job.run(0, {"last": {key: float(number) for number, key in enumerate(KEYS)}})
    await job.run(1, {"last": {}})
    leaving = cluster.servers[1]
    async with client_of(cluster.servers[0].addresses.proxy) as client:
        await until_direct(client, cluster)
        async with _looking_up(client).under_way() as asking:
            await asking.more()
            leaving.shutdown.leave()
            await leaving.wait_stopped()
            await cluster.stop_server(leaving)
            await job.run(2, {"last": {}})
            await asking.more()


async def test_what_a_server_that_leaves_had_of_an_idle_job_is_opened_at_once(
    tmp_path: Path,
) -> None:
    """Without a batch, and without the time that a lost server is given to come back."""
    async with InProcessCluster(tmp_path, servers=2, reopen_after_ms=600_000) as cluster:
        job = cluster.job("sensors", _last(), durable=True)
        await job.run(0, {"last": {key: float(number) for number, key in enumerate(KEYS)}})
        await job.run(1, {"last": {}})
        assert job.recover()
        coordinator = cluster.coordinator.coordinator
        assert await asyncio.to_thread(coordinator.await_recovered, job.query_id, DEADLINE_S)
        async with client_of(cluster.servers[0].addresses.proxy) as client:
            await until_direct(client, cluster)
            async with _looking_up(client).under_way() as asking:
                await cluster.stop_server(cluster.servers[1])
                await asking.more()


async def test_streams_are_told_to_go_elsewhere_and_answered_until_they_do(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    proxy = await cluster.add_proxy(lame_duck_s=DEADLINE_S)
    asked = {"state_id": await state_id_of(cluster), "keys": wire_keys("sensor_1")}
    async with (
        RawStream(proxy.address) as stream,
    ):
        await stream.ask(id=1, **asked)
        proxy.shutdown.leave()
        told = await stream.frames.response()
        assert told.WhichOneof("frame") == "go_away"
        assert QueryableStateError.from_proto(told.go_away).reason == Reason.STOPPING
        assert len((await stream.ask(id=2, **asked))[0].values) == 1
        proxy.shutdown.stop()
        await proxy.aclose()
        assert (await stream.frames.refusal()).reason == Reason.STOPPING


async def test_a_scan_that_outlasts_its_server_is_told_to_go_on_elsewhere(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    """By a refusal that says so, with the token of its last page in hand."""
    many = {f"key_{number}": "x" * 1000 for number in range(20_000)}
    wide = cluster.job("wide", _declared("text", "string"))
    await wide.run(0, {"text": many})
    await wide.run(1, {"text": {}})
    proxy = await cluster.add_proxy(lame_duck_s=0.05, drain_timeout_s=0.1)
    async with grpc.aio.insecure_channel(proxy.address) as channel:
        stub: Any = query_pb2_grpc.QueryableStateStub(channel)
        call = stub.ScanKvState(query_pb2.ScanKvStateRequest(job="wide", state_name="text"))
        first = await call.read()
        assert first.page_token
        proxy.shutdown.leave()
        await proxy.wait_stopped()
        ending = asyncio.create_task(proxy.aclose())
        with pytest.raises(grpc.aio.AioRpcError) as raised:
            await _read_to_its_end(call)
        assert error_from_call(raised.value, proxy.address).reason == Reason.STOPPING
        await ending


async def test_sigint_ends_without_grace_and_a_second_signal_at_once(
    cluster: InProcessCluster, job: InProcessJob
) -> None:
    async with (
        started_proxy(cluster, "--lame-duck", "600") as interrupted,
        started_proxy(cluster, "--lame-duck", "600") as hurried,
    ):
        interrupted.process.send_signal(signal.SIGINT)
        hurried.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(DEADLINE_S):
            assert await interrupted.process.wait() == 0
        assert hurried.process.returncode is None
        hurried.process.send_signal(signal.SIGTERM)
        async with asyncio.timeout(DEADLINE_S):
            assert await hurried.process.wait() == 0


async def _read_to_its_end(call: Any) -> None:
    while await call.read() is not grpc.aio.EOF:
        pass


def _looking_up(client: QueryableStateClient) -> Asking:
    async def ask() -> None:
        states = await client.get_kv_states("sensors", "last", KEYS)
        assert [state and state.value() for state in states] == list(range(100))

    return Asking(ask)


def _declared(name: str, value_type: str) -> Any:
    return declare(name, "string", value_type)


def _last() -> Any:
    return _declared("last", "double")
