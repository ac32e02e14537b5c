"""REST paths of jobs and the types of their states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.server.web.api import schemas
from queryable_state.server.web.api.parameters import JOB, STATE, TIMEOUT
from queryable_state.server.web.api.proto_json import message_json
from queryable_state.server.web.api.route import Route
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import UnknownStateError, shown
from queryable_state.wire.keys.time_window import is_windowed
from queryable_state.wire.schema.types import TypeInfo

if TYPE_CHECKING:
    from queryable_state.server.web.api.asked import Asked

_STATE = schemas.fields(
    "value_type",
    "map_key_type",
    job_id=schemas.TEXT,
    job_name=schemas.TEXT,
    queryable_name=schemas.TEXT,
    state_name=schemas.TEXT,
    operator_uid=schemas.TEXT,
    operator_name=schemas.TEXT,
    kind=schemas.TEXT,
    key_type=schemas.TEXT,
    value_type=schemas.TEXT,
    map_key_type=schemas.TEXT,
    windowed=schemas.FLAG,
    ttl_ms=schemas.NUMBER,
    ttl_per_value=schemas.FLAG,
    asks_all_partitions=schemas.FLAG,
    max_parallelism=schemas.NUMBER,
)


async def _jobs(asked: Asked) -> object:
    return message_json(await asked.call("ListJobs", query_pb2.ListJobsRequest(allow_stale=True)))


async def _states(asked: Asked) -> object:
    states = await _registrations(asked)
    return {"states": [_described(state) for state in states]}


async def _state(asked: Asked) -> object:
    name = asked.arguments["state"]
    states = await _registrations(asked)
    for state in states:
        if state.queryable_name == name:
            return _described(state)
    known = [state.queryable_name for state in states]
    raise UnknownStateError(
        f"job {shown(asked.arguments['job'])!r} has no state {shown(name)!r}; "
        f"known: {', '.join(known) or 'none'}",
        candidates=known,
    )


async def _registrations(asked: Asked) -> list[registration_pb2.StateRegistration]:
    request = query_pb2.ListStatesRequest(job=asked.arguments["job"])
    return list((await asked.call("ListStates", request)).states)


def _described(state: registration_pb2.StateRegistration) -> dict[str, Any]:
    """The state, with its newest types in Spark's words."""
    described: dict[str, Any] = {
        "job_id": state.job_id.hex(),
        "job_name": state.job_name,
        "queryable_name": state.queryable_name,
        "state_name": state.state_name,
        "operator_uid": state.operator_uid,
        "operator_name": state.operator_name,
        "kind": registration_pb2.StateKind.Name(state.kind),
        "key_type": TypeInfo.from_proto(state.key_type).simple_string(),
        "windowed": is_windowed(state),
        "ttl_ms": state.ttl.ttl_ms,
        "ttl_per_value": state.ttl.per_value,
        "asks_all_partitions": state.asks_all_partitions,
        "max_parallelism": state.max_parallelism,
    }
    if state.value_types:
        newest = max(state.value_types, key=lambda each: each.version)
        described["value_type"] = TypeInfo.from_proto(newest.type).simple_string()
    if state.HasField("map_key_type"):
        described["map_key_type"] = TypeInfo.from_proto(state.map_key_type).simple_string()
    return described


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/jobs",
        name="listJobs",
        summary="Lists the jobs that the caller may see, with the names of their states.",
        parameters=(TIMEOUT,),
        answer=_jobs,
        schema=schemas.of(query_pb2.ListJobsResponse),
    ),
    Route(
        method="GET",
        path="/api/v1/jobs/{job}/states",
        name="listStates",
        summary="Lists the queryable states of a job, with their types.",
        parameters=(JOB, TIMEOUT),
        answer=_states,
        schema=schemas.fields(states=schemas.rows(_STATE)),
    ),
    Route(
        method="GET",
        path="/api/v1/jobs/{job}/states/{state}",
        name="describeState",
        summary="Describes a state: its kind and its types.",
        parameters=(JOB, STATE, TIMEOUT),
        answer=_state,
        schema=_STATE,
    ),
)
"""The paths, as declared."""
