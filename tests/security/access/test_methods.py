"""Every public method against every kind of grant, on a proxy and on the server of the state."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tests.query.streams import wire_keys
from tests.security.access.sites import Asker, bearer, hello, refused_hello, send, token
from tests.waiting import DEADLINE_S

from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    AuthenticationError,
    PermissionDeniedError,
    QueryableStateError,
    UnknownStateError,
)

if TYPE_CHECKING:
    from queryable_state.server.query.proxy.proxy_server import ProxyServer
    from queryable_state.server.testing.cluster import InProcessCluster

NAMED = {"job": "sensors", "state_name": "last"}
OK, DENIED, UNKNOWN = "OK", "PERMISSION_DENIED", "UNAUTHENTICATED"


async def state_id(address: str, name: str = "last") -> int:
    async with Asker(address, "all") as asker:
        located = await asker.ask("LocateState", job="sensors", state_name=name)
    found: int = located.location.registration.state_id
    return found


def calls(state_id: int) -> dict[str, tuple[str, dict[str, Any]]]:
    """Each question: its method and its request."""
    key = wire_keys("sensor_1")
    return {
        "get": ("GetKvState", NAMED | {"key_json": '"sensor_1"'}),
        "explain": ("GetKvState", NAMED | {"key_json": '"sensor_1"', "explain": True}),
        "batch": ("BatchGetKvState", NAMED | {"keys": key}),
        "snapshot": ("BatchGetKvState", NAMED | {"keys": key, "one_cut": True}),
        "relayed": ("BatchGetKvState", {"query": query_pb2.Query(state_id=state_id, keys=key)}),
        "scan": ("ScanKvState", NAMED),
        "measure": ("MeasureState", NAMED),
        "hot keys": ("ListHotKeys", NAMED),
        "all hot keys": ("ListHotKeys", {"job": "sensors"}),
        "locate": ("LocateState", NAMED),
        "list states": ("ListStates", {"job": "sensors"}),
        "list jobs": ("ListJobs", {}),
        "describe": ("DescribeServer", {}),
        "describe job": ("DescribeJob", {"job": "sensors"}),
        "list servers": ("ListServers", {}),
    }


READS = ("get", "explain", "batch", "snapshot", "relayed")
SEES = ("locate", "list states", "list jobs", "describe", "describe job", "list servers")
ALLOWED = {
    "reader": {*READS, *SEES},
    "scanner": {"scan", "measure", "hot keys", "all hot keys", *SEES},
    "lister": {*SEES},
    "admin": {"measure", *SEES},
    "all": {*READS, *SEES, "scan", "measure", "hot keys", "all hot keys"},
    "nobody": {"describe", "list jobs"},
}


@pytest.mark.parametrize("plain_grpc", [False, True])
async def test_a_caller_may_do_what_its_grants_name_and_nothing_else(
    cluster: InProcessCluster, proxy: ProxyServer
) -> None:
    owner = cluster.servers[0].addresses
    for address in (proxy.address, owner.proxy):
        number = await state_id(address)
        for caller, allowed in ALLOWED.items():
            async with Asker(address, caller) as asker:
                found = {
                    name: await asker.status(method, **fields)
                    for name, (method, fields) in calls(number).items()
                }
            expected = {name: OK if name in allowed else DENIED for name in found}
            assert found == expected, (caller, address)
        async with Asker(address, None) as asker:
            for method, fields in calls(number).values():
                assert await asker.status(method, **fields) == UNKNOWN


async def test_the_server_of_the_state_checks_by_itself(cluster: InProcessCluster) -> None:
    """Clients reach it directly: the proxy's checks are not enough."""
    address = cluster.servers[0].addresses.query
    number = await state_id(address)
    for caller in ("lister", "nobody"):
        async with Asker(address, caller) as asker:
            for name in (*READS, "scan", "measure", "hot keys"):
                method, fields = calls(number)[name]
                assert await asker.status(method, **fields) == DENIED, name


async def test_a_token_of_another_state_reads_nothing(proxy: ProxyServer) -> None:
    seen = await state_id(proxy.address, "seen")
    async with Asker(proxy.address, "reader") as asker:
        with pytest.raises(PermissionDeniedError, match="caller 'reader' may not"):
            await asker.ask("GetKvState", job="sensors", state_name="seen", key_json='"sensor_1"')
        query = query_pb2.Query(state_id=seen, keys=wire_keys("sensor_1"))
        with pytest.raises(PermissionDeniedError):
            await asker.ask("BatchGetKvState", query=query)


async def test_a_denial_does_not_tell_whether_a_state_exists(proxy: ProxyServer) -> None:
    async with Asker(proxy.address, "nobody") as asker:
        texts: list[str] = []
        for job, name in (("sensors", "last"), ("sensors", "none"), ("none", "last"), ("", "last")):
            with pytest.raises(PermissionDeniedError) as refused:
                await asker.ask("LocateState", job=job, state_name=name)
            assert not refused.value.candidates
            texts.append(refused.value.message.replace(repr(job), "J").replace(repr(name), "S"))
        assert len({text.replace(" of job J", "") for text in texts}) == 1
        for job in ("sensors", "none"):
            with pytest.raises(PermissionDeniedError):
                await asker.ask("ListStates", job=job)
        for number in (await state_id(proxy.address), 12345):
            query = query_pb2.Query(state_id=number, keys=wire_keys("sensor_1"))
            with pytest.raises(PermissionDeniedError, match="or there is none"):
                await asker.ask("BatchGetKvState", query=query)
        assert not (await asker.ask("ListJobs")).jobs
        assert not (await asker.ask("ListStates")).states


async def test_names_of_other_states_are_no_candidates(proxy: ProxyServer) -> None:
    async with Asker(proxy.address, "lister") as asker:
        with pytest.raises(UnknownStateError) as refused:
            await asker.ask("LocateState", job="sensors", state_name="lasd")
        assert refused.value.candidates == ("last", "seen")
    async with Asker(proxy.address, "reader") as asker:
        with pytest.raises(PermissionDeniedError):
            await asker.ask("LocateState", job="sensors", state_name="lasd")
        states = (await asker.ask("ListStates")).states
        assert [state.queryable_name for state in states] == ["last"]
        [job] = (await asker.ask("ListJobs")).jobs
        assert list(job.states) == ["last"]


async def test_frames_need_a_token_in_their_hello(
    cluster: InProcessCluster, proxy: ProxyServer
) -> None:
    for address in (proxy.address, cluster.servers[0].addresses.query):
        for authorization in (
            "",
            "Bearer qst_other",
            "Signed 1-1 1 0123456789abcdef 1 " + "0" * 64,
        ):
            refusal = await refused_hello(address, authorization)
            assert isinstance(refusal, AuthenticationError), authorization


async def test_frames_answer_what_the_token_may_read(proxy: ProxyServer) -> None:
    last, seen = await state_id(proxy.address), await state_id(proxy.address, "seen")
    frames = await hello(proxy.address, f"Bearer {token('reader')}")
    assert (await frames.response()).WhichOneof("frame") == "hello"
    for number in range(3):
        # The second time from what the connection knows.
        send(frames, id=2 * number + 1, state_id=last, keys=wire_keys("sensor_1", "sensor_2"))
        answer = (await frames.response()).answer
        while not answer.last:
            answer = (await frames.response()).answer
        assert not answer.HasField("error")
        send(frames, id=2 * number + 2, state_id=seen, keys=wire_keys("sensor_1"))
        denied = (await frames.response()).answer
        assert isinstance(QueryableStateError.from_proto(denied.error), PermissionDeniedError)
    frames.writer.close()


def reflection_status(address: str, caller: str | None) -> str:
    """The status of a reflection call; with threads, because `grpc.aio` hides early refusals."""
    request = reflection_pb2.ServerReflectionRequest(list_services="")
    with grpc.insecure_channel(address) as channel:
        stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
        call = stub.ServerReflectionInfo(
            iter([request]), metadata=bearer(caller), timeout=DEADLINE_S
        )
        try:
            next(call)
        except grpc.RpcError as failure:
            refused: Any = failure
            return str(refused.code().name)
    return OK


async def test_health_is_open_and_reflection_needs_a_token(proxy: ProxyServer) -> None:
    async with grpc.aio.insecure_channel(proxy.address) as channel:
        health: Any = health_pb2_grpc.HealthStub(channel)
        answer = await health.Check(health_pb2.HealthCheckRequest(), timeout=DEADLINE_S)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    assert await asyncio.to_thread(reflection_status, proxy.address, None) == UNKNOWN
    assert await asyncio.to_thread(reflection_status, proxy.address, "nobody") == OK
