"""Hot keys of states, merged over their owners."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from queryable_state.server.query.hot_keys import merged
from queryable_state.server.query.retries import no_owner
from queryable_state.v1 import hot_keys_pb2
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.query.proxy.owner_calls import OwnerCalls
    from queryable_state.server.query.router import Engine
    from queryable_state.wire.located_state import LocatedState, Owner

# Share of the timeout, so that the caller receives partial results before it gives up.
_PART_OF_TIME = 0.7


async def hot_keys_of_owners(
    states: Sequence[LocatedState],
    limit: int,
    calls: OwnerCalls,
    *,
    server_id: str,
    engine: Engine | None,
    timeout_s: float,
) -> hot_keys_pb2.ListHotKeysResponse:
    """The hot keys of all owners; the failure of an owner is one of `errors`."""

    async def ask(located: LocatedState, owner: Owner) -> hot_keys_pb2.ListHotKeysResponse:
        try:
            if engine is not None and owner.server_id == server_id:
                return engine.hot_keys(located.state_id, limit)
            if not owner.address:
                return hot_keys_pb2.ListHotKeysResponse(errors=[no_owner(located)])
            return await calls.hot_keys(owner, located, limit, timeout_s * _PART_OF_TIME)
        except QueryableStateError as refusal:
            return hot_keys_pb2.ListHotKeysResponse(errors=[refusal.to_proto()])

    return merged(
        await asyncio.gather(
            *(ask(located, owner) for located in states for owner in located.owners)
        ),
        limit,
    )
