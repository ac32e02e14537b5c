"""A look-up of one key, by the way of every look-up, that notes what is done for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from queryable_state.client._errors import ClientClosedError
from queryable_state.client._lookup_trace import LookupTrace
from queryable_state.client._reading.explanation import Explanation
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from queryable_state.client._routing.dispatcher import Dispatcher
    from queryable_state.client._routing.key_batcher import KeyBatcher

_CONNECTED_WITHIN_S = 1.0


async def explained(dispatcher: Dispatcher, plain: KeyBatcher, key: Any) -> Explanation:
    """Asks for the key as the lane would; a refusal stands in the explanation.

    Raises what the look-up raises before anything is sent.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + plain.options.timeout_s
    trace = LookupTrace()
    batcher = plain.traced(trace)
    state = error = None
    try:
        state = await batcher.ask(key)
    except QueryableStateError as refusal:
        if not trace.was_sent or isinstance(refusal, ClientClosedError):
            raise
        error = refusal
    total_us = trace.now_us
    # A client that was just made is still about to connect to those it will ask.
    await dispatcher.pool.settled(max(0.0, min(_CONNECTED_WITHIN_S, deadline - loop.time())))
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
        key_group=key_group,
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
