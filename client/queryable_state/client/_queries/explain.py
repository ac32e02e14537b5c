"""Explained lookup of one key."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from queryable_state.client._errors import ClientClosedError
from queryable_state.client._queries.lookup_trace import LookupTrace
from queryable_state.client._reading.explanation import Explanation
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from queryable_state.client._queries.dispatcher import Dispatcher
    from queryable_state.client._queries.lookups import KeyBatcher

_CONNECT_WAIT_S = 1.0


async def explained(dispatcher: Dispatcher, plain: KeyBatcher, key: Any) -> Explanation:
    """Looks up a key with the options of `plain` and explains the lookup.

    A server's refusal becomes part of the explanation; an error before the first message is
    sent is raised.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + plain.options.timeout_s
    trace = LookupTrace()
    batcher = dispatcher.batcher(plain.handle, plain.options.traced(trace))
    state = error = None
    try:
        state = await batcher.look_up(key)
    except QueryableStateError as refusal:
        if not trace.was_sent or isinstance(refusal, ClientClosedError):
            raise
        error = refusal
    total_us = trace.now_us
    # A new client is still connecting to the owners.
    await dispatcher.pool.wait_connected(max(0.0, min(_CONNECT_WAIT_S, deadline - loop.time())))
    located, encode, servers = batcher.handle.located, batcher.encode, trace.servers
    assert located is not None
    assert encode is not None
    key_group = int.from_bytes(encode(key)[:2], "big")
    owner = located.by_key_group[key_group]
    return Explanation(
        key=key,
        state=state,
        error=error,
        state_id=located.state_id,
        window=plain.options.window,
        key_group=key_group,
        asks_all_partitions=located.registration.asks_all_partitions,
        subtask=servers.subtask,
        operator_uid=located.registration.operator_uid,
        owner_id=servers.owner_id or owner.server_id,
        owner_address=servers.owner_address or owner.address,
        placement_version=servers.placement_version or located.placement_version,
        steps=tuple(trace.steps),
        connections=dispatcher.pool.connections(),
        server_us=servers.total_us,
        total_us=total_us,
    )
