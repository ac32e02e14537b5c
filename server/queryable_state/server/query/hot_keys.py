"""Answers about hot keys: merged over owners, with the JSON of their keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.v1 import hot_keys_pb2, query_pb2
from queryable_state.wire.errors import InvalidRequestError, QueryableStateError
from queryable_state.wire.operator_state import OPERATOR_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from queryable_state.server.query.router import Router
    from queryable_state.wire.located_state import LocatedState

_DEFAULT_LIMIT = 10
_MOST_LIMIT = 1000


async def list_hot_keys(
    router: Router, request: hot_keys_pb2.ListHotKeysRequest, timeout_ms: int
) -> hot_keys_pb2.ListHotKeysResponse:
    """Answers `ListHotKeys`."""
    names = [(request.job, request.state_name)]
    if not request.state_name:
        listed = await router.list_states(query_pb2.ListStatesRequest(job=request.job))
        jobs = sorted({state.job_name for state in listed.states})
        if len(jobs) > 1 and not request.job:
            raise InvalidRequestError(f"name the job, because there are several: {jobs}")
        names = [
            (state.job_id.hex(), state.queryable_name)
            for state in listed.states
            if state.kind not in OPERATOR_KINDS
        ]
    states = [
        await router.locate(query_pb2.LocateStateRequest(job=job, state_name=name))
        for job, name in names
    ]
    response = await router.hot_keys(
        states,
        min(request.limit or _DEFAULT_LIMIT, _MOST_LIMIT),
        timeout_ms,
        placement_version=request.placement_version,
    )
    add_key_texts(response, states)
    return response


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
    for key in response.keys:
        try:
            key.key_json = by_name[key.state_name].json.key_text(key.key)
        except QueryableStateError:
            continue
