"""Answers about hot keys: merged over owners, with the JSON of their keys."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from itertools import chain
from typing import TYPE_CHECKING

from queryable_state.server.query.retries import no_owner
from queryable_state.v1 import hot_keys_pb2, query_pb2
from queryable_state.wire.errors import InvalidRequestError, PlacementError, QueryableStateError
from queryable_state.wire.operator_state import OPERATOR_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from queryable_state.server.query.proxy.owner_calls import OwnerCalls
    from queryable_state.server.query.router import Engine, Router
    from queryable_state.v1 import registration_pb2
    from queryable_state.wire.located_state import LocatedState, Owner
    from queryable_state.wire.state_json import StateJson

_DEFAULT_LIMIT = 10
_MOST_LIMIT = 1000


async def list_hot_keys(
    router: Router, request: hot_keys_pb2.ListHotKeysRequest, timeout_ms: int
) -> hot_keys_pb2.ListHotKeysResponse:
    """Answers `ListHotKeys`."""
    if request.state_name:
        named = query_pb2.LocateStateRequest(job=request.job, state_name=request.state_name)
        states = [await router.locate(named)]
    else:
        states = await _all_states(router, request.job)
    response = await router.hot_keys(
        states,
        min(request.limit or _DEFAULT_LIMIT, _MOST_LIMIT),
        timeout_ms,
        placement_version=request.placement_version,
    )
    if not request.placement_version:
        # A proxy adds the texts to what it has merged.
        add_key_texts(response, states)
    return response


async def _all_states(router: Router, job: str) -> list[LocatedState]:
    """The keyed states of a job. Those of an operator have the same owners: one is located."""
    listed = await router.list_states(query_pb2.ListStatesRequest(job=job))
    jobs = sorted({state.job_name for state in listed.states})
    if len(jobs) > 1 and not job:
        raise InvalidRequestError(f"name the job, because there are several: {jobs}")
    of_operators: defaultdict[tuple[bytes, str], list[registration_pb2.StateRegistration]]
    of_operators = defaultdict(list)
    for state in listed.states:
        if state.kind not in OPERATOR_KINDS:
            of_operators[state.job_id, state.operator_uid].append(state)

    async def located(
        states: list[registration_pb2.StateRegistration],
    ) -> Iterable[LocatedState]:
        first = await router.locate(
            query_pb2.LocateStateRequest(
                job=states[0].job_id.hex(), state_name=states[0].queryable_name
            )
        )
        return (first, *map(first.of_same_operator, states[1:]))

    return [*chain.from_iterable(await asyncio.gather(*map(located, of_operators.values())))]


def merged(
    parts: Iterable[hot_keys_pb2.ListHotKeysResponse], limit: int
) -> hot_keys_pb2.ListHotKeysResponse:
    """Sums the parts of a state's owners; a key that has moved may be in two parts."""
    whole = hot_keys_pb2.ListHotKeysResponse(complete=True)
    totals: dict[tuple[str, int], hot_keys_pb2.KeyTouches] = {}
    keys: dict[tuple[str, int], dict[bytes, hot_keys_pb2.HotKey]] = {}
    for part in parts:
        whole.window_ms = max(whole.window_ms, part.window_ms)
        whole.complete = whole.complete and part.complete
        whole.errors.extend(part.errors)
        for total in part.totals:
            known = totals.setdefault((total.state_name, total.side), total)
            if known is not total:
                known.total += total.total
                known.sampled_every = max(known.sampled_every, total.sampled_every)
                known.most_missed = max(known.most_missed, total.most_missed)
                known.off = known.off or total.off
        for key in part.keys:
            of_state = keys.setdefault((key.state_name, key.side), {})
            found = of_state.setdefault(key.key, key)
            if found is not key:
                found.count += key.count
                found.error += key.error
    for name, total in sorted(totals.items()):
        whole.totals.append(total)
        found_keys = keys.get(name, {}).values()
        for key in sorted(found_keys, key=lambda key: (-key.count, key.key))[:limit]:
            key.share = min(1.0, key.count / total.total)
            whole.keys.append(key)
    return whole


def add_key_texts(
    response: hot_keys_pb2.ListHotKeysResponse, states: Sequence[LocatedState]
) -> None:
    """Sets the JSON of each key; empty if the key cannot be decoded."""
    by_name = {located.registration.queryable_name: located for located in states}
    # Codecs take long to make, and the keyed states of an operator have the same keys.
    of_operators: dict[tuple[str, bytes], StateJson] = {}
    for key in response.keys:
        located = by_name.get(key.state_name)
        if located is None:
            continue
        registration = located.registration
        keys = (registration.operator_uid, registration.key_type.SerializeToString())
        try:
            if keys not in of_operators:
                of_operators[keys] = located.json
            key.key_json = of_operators[keys].key_text(key.key)
        except QueryableStateError:
            continue


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
