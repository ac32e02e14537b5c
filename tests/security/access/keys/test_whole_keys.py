"""A `read` grant is for keys that the caller knows: parts of keys read nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.security.access.sites import RULES, Asker, hello, send, token

from queryable_state.server.testing.changes import Windows
from queryable_state.server.testing.cluster import declare, windowed
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import InvalidRequestError, Reason
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.keys.time_window import TimeWindow
from queryable_state.wire.keys.timer_keys import Clock
from queryable_state.wire.schema.types import type_info

if TYPE_CHECKING:
    from queryable_state.server.query.proxy.proxy_server import ProxyServer
    from queryable_state.server.testing.cluster import InProcessCluster

STATES = ("amounts", "items", "alarms", "hourly", "pairs")
KEY_TYPES = {"amounts": "bigint", "items": "bigint", "pairs": "a string, b bigint"}
ONE_VALUE = ("amounts", "hourly")
READS = ("PREFIX", "WINDOWS", "SIZE", "EXISTS", "SLICE")


@pytest.fixture
def rules() -> str:
    """The caller `reader` may read the states of the job `orders`, and not scan them."""
    grant = '[[grants]]\ncallers = ["reader"]\njobs = ["orders"]\nstates = ["*"]\nkinds = ["read"]'
    return RULES + grant


@pytest.fixture
async def state_ids(cluster: InProcessCluster, proxy: ProxyServer) -> dict[str, int]:
    """The states of the job `orders`, by name."""
    job = cluster.job(
        "orders",
        declare("amounts", "bigint", "bigint"),
        declare("items", "bigint", "bigint", kind=registration_pb2.LIST),
        declare("alarms", "string", kind=registration_pb2.TIMER),
        windowed(declare("hourly", "string", "bigint")),
        declare("pairs", "a string, b bigint", "bigint", kind=registration_pb2.LIST),
    )
    names, window = [f"customer_{number}" for number in range(50)], TimeWindow(0, 10)
    await job.run(
        0,
        {
            "amounts": {number: number for number in range(50)},
            "items": {number: [number] for number in range(50)},
            "alarms": {name: {(Clock.EVENT_TIME, 7): True} for name in names},
            "hourly": {name: Windows({window: 1}) for name in names},
            "pairs": {(name, 1): [1] for name in names},
        },
    )
    found = {}
    async with Asker(proxy.address, "all") as asker:
        for name in STATES:
            located = await asker.ask("LocateState", job="orders", state_name=name)
            found[name] = located.location.registration.state_id
    return found


def parts(state: str) -> list[bytes]:
    """Key groups alone, and with the first bytes that all keys of a state have."""
    first = b"customer_" if KEY_TYPES.get(state) != "bigint" else b"\x80" + b"\x00" * 6
    groups = [group.to_bytes(2, "big") for group in range(128)]
    return [*groups, *(group + first for group in groups), *(group + first[:1] for group in groups)]


def reads(state: str) -> list[query_pb2.ReadKind.ValueType]:
    unfit = {"WINDOWS"} if state != "hourly" else set()
    if state not in ("items", "pairs"):
        unfit.add("SLICE")
    return [query_pb2.ReadKind.Value(name) for name in READS if name not in unfit]


def check_refused(answer: query_pb2.Answer) -> None:
    """Checks that an answer refuses all of its keys, without a byte of a record."""
    assert not answer.values
    assert not answer.missing
    errors = [each.error for each in answer.failed]
    if answer.HasField("error"):
        errors.append(answer.error)
    assert {error.reason for error in errors} == {Reason.INVALID_REQUEST}
    for error in errors:
        assert "exactly one key of state" in error.message
        assert b"customer_1".hex() not in error.message


@pytest.mark.parametrize("state", STATES)
async def test_parts_of_keys_read_nothing_in_unary_calls(
    cluster: InProcessCluster, proxy: ProxyServer, state_ids: dict[str, int], state: str
) -> None:
    named = {"job": "orders", "state_name": state}
    window = {"namespace": TimeWindow(0, 10).namespace} if state == "hourly" else {}
    for address in (proxy.address, cluster.servers[0].addresses.query):
        async with Asker(address, "reader") as asker:
            for read in reads(state):
                # By name, PREFIX is a point read of a state with one value.
                by_name = state not in ONE_VALUE or read != query_pb2.PREFIX
                asked: dict[str, Any] = {"read": read}
                if read != query_pb2.WINDOWS:
                    asked |= window
                for some in (parts(state), parts(state)[5:6], parts(state)[-5:]):
                    query = query_pb2.Query(
                        id=1, state_id=state_ids[state], keys=some, deadline_ms=10_000, **asked
                    )
                    requests: list[dict[str, Any]] = [{"query": query}]
                    if by_name:
                        requests.append(named | {"keys": some} | asked)
                    for fields in requests:
                        answered = await asker.ask("BatchGetKvState", **fields)
                        assert answered.answers
                        for answer in answered.answers:
                            check_refused(answer)
                if by_name:
                    with pytest.raises(InvalidRequestError, match="exactly one key of state"):
                        await asker.ask("GetKvState", encoded_key=parts(state)[0], **named, **asked)
            assert await asker.status("ScanKvState", **named) == "PERMISSION_DENIED"


@pytest.mark.parametrize("state", STATES)
async def test_parts_of_keys_read_nothing_on_frame_connections(
    proxy: ProxyServer, state_ids: dict[str, int], state: str
) -> None:
    frames = await hello(proxy.address, f"Bearer {token('reader')}")
    await frames.response()
    for number, read in enumerate(reads(state), start=1):
        fields: dict[str, Any] = {"keys": parts(state), "read": read}
        if state == "hourly" and read != query_pb2.WINDOWS:
            fields["namespace"] = TimeWindow(0, 10).namespace
        send(frames, id=number, state_id=state_ids[state], **fields)
        last = False
        while not last:
            answer = (await frames.response()).answer
            check_refused(answer)
            last = answer.last
    frames.writer.close()


async def test_whole_keys_are_read(proxy: ProxyServer, state_ids: dict[str, int]) -> None:
    keys = {"alarms": "customer_1", "items": 1, "pairs": ("customer_1", 1)}
    async with Asker(proxy.address, "reader") as asker:
        for state, key in keys.items():
            encoded = KeyGroups(type_info(KEY_TYPES.get(state, "string"))).wire_key(key)
            answered = await asker.ask(
                "BatchGetKvState",
                job="orders",
                state_name=state,
                keys=[encoded],
                read=query_pb2.PREFIX,
            )
            [answer] = answered.answers
            assert len(query_pb2.Records.FromString(answer.values[0]).values) == 1
