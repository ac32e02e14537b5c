"""Estimate of the size of a state on this server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import QueryableStateError
from queryable_state.wire.operator_state import OPERATOR_KINDS

if TYPE_CHECKING:
    from queryable_state.server.state_server.base.background_thread import BackgroundThread
    from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask
    from queryable_state.server.state_server.stores.store_table import StateRoute


async def measured(
    route: StateRoute, state_id: int, background: BackgroundThread
) -> list[query_pb2.StatePart]:
    """Returns one part for each subtask of the route, ordered by key group."""
    info = route.job.info
    subtasks = sorted(route.subtasks, key=lambda subtask: subtask.first_key_group)
    # All jobs are enqueued before the loop turns, so a dropped store is closed after them.
    handed_over = [background.run(_measure, subtask, state_id, info) for subtask in subtasks]
    return [await part for part in handed_over]


def _measure(subtask: OwnedSubtask, state_id: int, info: query_pb2.ReadInfo) -> query_pb2.StatePart:
    part = query_pb2.StatePart(
        first_key_group=subtask.first_key_group,
        last_key_group=subtask.last_key_group,
        subtask=subtask.id.subtask,
        info=info,
    )
    part.info.complete_since_batch = subtask.complete_since_batch
    try:
        if subtask.states[state_id].kind in OPERATOR_KINDS:
            elements = subtask.store.operator_state(state_id)
            part.records, part.bytes = len(elements), sum(map(len, elements))
        else:
            part.records, part.bytes = subtask.store.approximate_size(state_id)
    except QueryableStateError as problem:
        part.error.CopyFrom(problem.to_proto())
    return part
