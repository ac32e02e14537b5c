"""Hot keys of states, merged over their owners."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import TYPE_CHECKING

from queryable_state.server.query.hot_keys import merged
from queryable_state.server.query.retries import no_owner
from queryable_state.v1 import hot_keys_pb2
from queryable_state.wire.errors import PlacementError, QueryableStateError

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
    """The hot keys of all owners; the failure of an owner is one of `errors`.

    Each owner is asked once for all its states of a job.
    """
    of_owners: defaultdict[tuple[Owner, bytes], list[LocatedState]] = defaultdict(list)
    for located in states:
        for owner in located.owners:
            of_owners[owner, located.registration.job_id].append(located)

    async def ask(owner: Owner, owned: list[LocatedState]) -> hot_keys_pb2.ListHotKeysResponse:
        try:
            if engine is not None and owner.server_id == server_id:
                return hot_keys_here(engine, owned, limit)
            if not owner.address:
                return hot_keys_pb2.ListHotKeysResponse(errors=list(map(no_owner, owned)))
            answer = await calls.hot_keys(owner, owned, limit, timeout_s * _PART_OF_TIME)
        except QueryableStateError as refusal:
            return hot_keys_pb2.ListHotKeysResponse(errors=[refusal.to_proto()])
        return _only(owned, answer, owner)

    return merged(
        await asyncio.gather(*(ask(owner, owned) for (owner, _), owned in of_owners.items())),
        limit,
    )


def hot_keys_here(
    engine: Engine, states: Sequence[LocatedState], limit: int
) -> hot_keys_pb2.ListHotKeysResponse:
    """The hot keys of those of the states that this process has; raises NOT_OWNER if it has none.

    States of other operators of the job may be elsewhere.
    """
    parts: list[hot_keys_pb2.ListHotKeysResponse] = []
    refusal: PlacementError | None = None
    for located in states:
        try:
            parts.append(engine.hot_keys(located.state_id, limit))
        except PlacementError as problem:
            refusal = problem
    if refusal is not None and not parts:
        raise refusal
    return merged(parts, limit)


def _only(
    states: Sequence[LocatedState], answer: hot_keys_pb2.ListHotKeysResponse, owner: Owner
) -> hot_keys_pb2.ListHotKeysResponse:
    """The part of an owner's answer that is of these states, with an error for each that lacks.

    The owner answers for all states of the job, and the caller may not see all.
    """
    names = {located.registration.queryable_name for located in states}
    found = {total.state_name for total in answer.totals}
    errors = [
        PlacementError(
            f"server {owner.server_id} has no part of {located.describe()} any more: ask again",
            placement_version=located.placement_version,
        ).to_proto()
        for located in states
        if located.registration.queryable_name not in found
    ]
    return hot_keys_pb2.ListHotKeysResponse(
        keys=[key for key in answer.keys if key.state_name in names],
        totals=[total for total in answer.totals if total.state_name in names],
        window_ms=answer.window_ms,
        complete=answer.complete and not errors,
        errors=[*answer.errors, *errors],
    )
