"""Scans by hand, of servers and proxies, checked for what holds for any."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import grpc.aio
from tests.query.streams import KEYS, VALUES
from tests.waiting import DEADLINE_S

from queryable_state.v1 import query_pb2, query_pb2_grpc
from queryable_state.wire.status import error_from_call

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator


ALL = {f"sensor_{number}": float(number) for number in range(100)}
"""The keys and values of state `last` that a scan of the whole state returns."""


def scan_call(
    channel: grpc.aio.Channel, *, timeout: float | None = DEADLINE_S, **fields: Any
) -> Any:
    """The call itself, to be read as slowly as a test likes."""
    stub: Any = query_pb2_grpc.QueryableStateStub(channel)
    given = {"job": "sensors", "state_name": "last"} | fields
    return stub.ScanKvState(query_pb2.ScanKvStateRequest(**given), timeout=timeout)


async def taken(call: Any) -> AsyncGenerator[query_pb2.ScanKvStateResponse, None]:
    """The messages of a call; raises its refusal."""
    try:
        async for message in call:
            yield message
    except grpc.aio.AioRpcError as failure:
        raise error_from_call(failure, "server") from None


async def scan(channel: grpc.aio.Channel, **fields: Any) -> list[query_pb2.ScanKvStateResponse]:
    """All messages of a scan."""
    messages = [message async for message in taken(scan_call(channel, **fields))]
    assert [message.last for message in messages] == [False] * (len(messages) - 1) + [True]
    assert len({message.info.version for message in messages}) == 1
    assert not any(message.complete for message in messages[:-1])
    assert all(message.page_token and message.keys for message in messages[:-1])
    keys = [scanned.key for message in messages for scanned in message.keys]
    if not fields.get("json"):
        assert keys == sorted(set(keys))
    return messages


def values_of(messages: list[query_pb2.ScanKvStateResponse]) -> dict[str, float]:
    """Keys and values, decoded."""
    return {
        KEYS.decode_key(scanned.key): VALUES.decode(scanned.records.values[0])
        for message in messages
        for scanned in message.keys
    }


def texts_of(messages: list[query_pb2.ScanKvStateResponse]) -> dict[Any, Any]:
    """Keys and values of a scan in JSON."""
    scanned = [scanned for message in messages for scanned in message.keys]
    assert not any(each.key or each.HasField("records") for each in scanned)
    return {
        json.loads(each.key_json): json.loads(each.value_json) if each.value_json else None
        for each in scanned
    }
