"""Calls of a task before its operator runs: to find the owner, and to read the keys it owns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.protocol.counted import CODECS, KEYS, STORE_KEYS, index_of

from queryable_state.internal.v1 import backend_pb2
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import RetryLaterError

if TYPE_CHECKING:
    from tests.protocol.servers import Server, Servers

    from queryable_state.internal.v1 import changes_pb2


async def owner_of(subtask: backend_pb2.Subtask, asked: Server, servers: Servers) -> Server:
    """Returns the server that owns a subtask; raises RetryLaterError if that server is gone."""
    request = backend_pb2.LocateSubtaskRequest(subtask=subtask)
    owner = await asked.call("LocateSubtask", request)
    server = servers.by_address.get(owner.address)
    if server is None:
        request.not_server_id = owner.server_id
        owner = await asked.call("LocateSubtask", request)
        server = servers.by_address.get(owner.address)
    if server is None:
        raise RetryLaterError("the owner is gone, and its lease is not over")
    return server


async def values_of(
    server: Server,
    subtask: backend_pb2.Subtask,
    batch_id: int,
    token: changes_pb2.Token,
    state_id: int,
) -> dict[str, int]:
    """Reads the value of each key of a subtask; 0 for a key without a value."""
    keys = [key for key in KEYS if index_of(key, subtask.parallelism) == subtask.index]
    fetch = backend_pb2.FetchRequest(
        subtask=subtask,
        batch_id=batch_id,
        token=token,
        fetches=[
            backend_pb2.StateFetch(
                state_id=state_id,
                read=query_pb2.POINT,
                keys=[STORE_KEYS[key] for key in keys],
            )
        ],
    )
    (result,) = (await server.call("Fetch", fetch)).results
    found = iter(result.values)
    missing = set(result.missing)
    return {
        key: 0 if position in missing else CODECS.value.decode(next(found))
        for position, key in enumerate(keys)
    }
