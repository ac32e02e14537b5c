"""The hot keys of one state on this server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.server.state_server.key_sampler import FrequentKeys
from queryable_state.v1 import hot_keys_pb2
from queryable_state.wire.errors import QueryableStateError
from queryable_state.wire.state_json import StateJson

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from queryable_state.server.state_server.stores.store_table import StateRoute

# Touches of a state in the last minute below which no key of it is reported as busy.
_LEAST_TOUCHES = 1000
# As many keys as tell whether a state has few keys, or one that is touched far more than others.
_KEYS = 10


def busy_states(routes: Iterable[StateRoute]) -> Iterator[coordinator_pb2.StateLoad]:
    """The hot keys of the keyed states that are touched often, with their JSON."""
    for route in routes:
        if not (route.asked.is_on and route.registration.queryable_name):
            continue
        hot_keys = hot_keys_of(route, _KEYS)
        if all(total.total < _LEAST_TOUCHES for total in hot_keys.totals):
            continue
        of_state = StateJson(route.registration)
        for key in hot_keys.keys:
            try:
                key.key_json = of_state.key_text(key.key)
            except QueryableStateError:
                continue
        yield coordinator_pb2.StateLoad(query_id=route.registration.job_id, hot_keys=hot_keys)


def hot_keys_of(route: StateRoute, limit: int) -> hot_keys_pb2.ListHotKeysResponse:
    """The keys that queries and tasks touched most often, without their JSON."""
    response = hot_keys_pb2.ListHotKeysResponse(complete=True)
    asked, written = FrequentKeys(), FrequentKeys()
    route.asked.settle()
    route.asked.recent.merge_into(asked)
    for subtask in route.subtasks:
        subtask.key_rows.merge_into(written)
    recent = [route.asked.recent, *(subtask.key_rows for subtask in route.subtasks)]
    response.window_ms = max(each.window_ms for each in recent)
    for side, sketch in (
        (hot_keys_pb2.HotKey.READ, asked),
        (hot_keys_pb2.HotKey.WRITE, written),
    ):
        response.totals.add(
            state_name=route.registration.queryable_name,
            side=side,
            total=sketch.total,
            sampled_every=sketch.sampled_every,
            most_missed=sketch.error(0),
            operator_uid=route.registration.operator_uid,
            key_type=route.registration.key_type,
            off=not route.asked.is_on,
        )
        for key, count in sketch.top(limit).items():
            response.keys.add(
                state_name=route.registration.queryable_name,
                key=key,
                side=side,
                count=count,
                error=sketch.error(count),
                share=min(1.0, count / sketch.total),
            )
    return response
