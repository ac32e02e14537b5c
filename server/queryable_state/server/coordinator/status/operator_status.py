"""Operators of a job, their states, and the owners of their key groups."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.v1 import status_pb2
from queryable_state.wire.keys.key_groups import key_group_range

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.server.coordinator.model.jobs import Job
    from queryable_state.server.coordinator.model.operators import Operator
    from queryable_state.server.coordinator.model.state import CoordinatorState
    from queryable_state.server.coordinator.status.load_table import LoadTable


def operator_statuses(state: CoordinatorState, job: Job) -> list[status_pb2.OperatorStatus]:
    """The stateful operators of a job, by depth and uid. Call inside a transaction."""
    layouts = {layout.uid: layout for layout in (job.run.start.operators if job.run.start else ())}
    placed = {operator.uid: operator for operator in state.placement.operators(job.query_id)}
    registered = state.states.of_job(job.query_id)
    depths: dict[str, int] = {}
    for registration in registered:
        depths[registration.operator_uid] = registration.operator_depth
    statuses = []
    for uid in sorted(layouts.keys() | placed.keys(), key=lambda uid: (depths.get(uid, 0), uid)):
        layout, operator = layouts.get(uid), placed.get(uid)
        size = operator or layout
        assert size is not None
        status = status_pb2.OperatorStatus(
            uid=uid,
            name=next((each.operator_name for each in registered if each.operator_uid == uid), "")
            or uid,
            depth=depths.get(uid, 0),
            sources=layout.sources if layout else (),
            states=sorted(
                each.queryable_name
                for each in registered
                if each.operator_uid == uid and each.queryable_name
            ),
            parallelism=size.parallelism,
            max_parallelism=size.max_parallelism,
        )
        if operator is not None:
            status.owners.extend(_owners(state, operator))
        reported = [timers for (of, _), timers in job.run.timers.items() if of == uid]
        processing = _earliest(each.processing_time_ms for each in reported)
        if processing is not None:
            status.next_processing_timer_ms = processing
        event = _earliest(each.event_time_ms for each in reported)
        if event is not None:
            status.next_event_timer_ms = event
        statuses.append(status)
    return statuses


def restores_of(
    state: CoordinatorState, job: Job, load: LoadTable
) -> list[status_pb2.RestoreProgress]:
    """The subtasks whose owner may be loading stored state. Call inside a transaction."""
    found = []
    for operator in state.placement.operators(job.query_id):
        for index, ownership in operator.subtasks.items():
            if ownership.restoring:
                first, last = key_group_range(index, operator.parallelism, operator.max_parallelism)
                progress = status_pb2.RestoreProgress(
                    operator_uid=operator.uid,
                    first_key_group=first,
                    last_key_group=last,
                    server_id=ownership.server_id,
                )
                reported = load.restores(ownership.server_id, job.query_id)
                running = reported.get((operator.uid, index))
                if running is not None:
                    progress.started_at_ms = running.started_at_ms
                    progress.bytes_done, progress.bytes = running.bytes_done, running.bytes
                found.append(progress)
    return found


def _owners(state: CoordinatorState, operator: Operator) -> list[status_pb2.KeyGroupOwner]:
    """Neighbouring subtasks of one owner as one run of key groups."""
    owners: list[status_pb2.KeyGroupOwner] = []
    for index in range(operator.parallelism):
        first, last = key_group_range(index, operator.parallelism, operator.max_parallelism)
        server = state.placement.owner(operator, index)
        server_id = server.server_id if server else ""
        ownership = operator.subtasks.get(index)
        is_open = bool(server_id and ownership and ownership.opened)
        if owners and (owners[-1].server_id, owners[-1].open) == (server_id, is_open):
            owners[-1].last_key_group = last
        else:
            owners.append(
                status_pb2.KeyGroupOwner(
                    first_key_group=first, last_key_group=last, server_id=server_id, open=is_open
                )
            )
    return owners


def _earliest(times_ms: Iterable[int | None]) -> int | None:
    return min((time_ms for time_ms in times_ms if time_ms is not None), default=None)
