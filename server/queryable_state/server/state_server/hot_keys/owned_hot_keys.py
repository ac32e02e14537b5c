"""The hot keys of one state on this server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.state_server.hot_keys.frequent_keys import FrequentKeys
from queryable_state.v1 import hot_keys_pb2

if TYPE_CHECKING:
    from queryable_state.server.state_server.stores.store_table import StateRoute


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
