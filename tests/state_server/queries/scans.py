"""Scans of an owner's state, checked for what holds for any."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import pytest
from tests.state_server.owner import MAX_PARALLELISM, STATE_ID, VALUES, Owner

from queryable_state.server.query.scan_query import ScanQuery, position_of
from queryable_state.wire.errors import QueryableStateError
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from queryable_state.v1 import query_pb2

CODEC = KeyCodec(Types.STRING())
ALL = {f"k{i}": i for i in range(2000)}


def scan_query(**fields: Any) -> ScanQuery:
    return ScanQuery(
        **{
            "state_id": STATE_ID,
            "first_key_group": 0,
            "last_key_group": MAX_PARALLELISM - 1,
            "page_timeout_ms": 10_000,
            **fields,
        }
    )


async def messages(owner: Owner, query: ScanQuery) -> list[query_pb2.ScanKvStateResponse]:
    """All messages of a scan, checked for what holds for any."""
    async with aclosing(owner.engine.scan(query)) as scan:
        found = [message async for message in scan]
    assert [message.last for message in found] == [False] * (len(found) - 1) + [True]
    assert all(message.info == found[0].info for message in found)
    for message in found[:-1]:
        assert message.page_token == position_of(message.keys[-1])
        assert not message.complete
    keys = [position_of(scanned) for message in found for scanned in message.keys]
    assert keys == sorted(set(keys))
    return found


async def scanned(owner: Owner, query: ScanQuery) -> dict[str, list[bytes]]:
    """The stored values by key."""
    found = await messages(owner, query)
    return {
        CODEC.decode_all(key.key[2:]): list(key.records.values)
        for message in found
        for key in message.keys
    }


def stored(values: dict[str, int]) -> dict[str, list[bytes]]:
    return {key: [VALUES.encode(value)] for key, value in values.items()}


async def refusal(owner: Owner, query: ScanQuery) -> QueryableStateError:
    with pytest.raises(QueryableStateError) as refused:
        await messages(owner, query)
    return refused.value
