"""REST paths of jobs, their status and checkpoints, and their state servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.web.api import schemas
from queryable_state.server.web.api.parameters import JOB, TIMEOUT, Parameter
from queryable_state.server.web.api.proto_json import message_json
from queryable_state.server.web.api.route import Route
from queryable_state.v1 import status_pb2

if TYPE_CHECKING:
    from queryable_state.server.web.api.asked import Asked

_HISTORY = Parameter(
    name="history", kind="flag", meaning="1 answers also with the batches of the last hour."
)


async def _job(asked: Asked) -> object:
    return message_json(await _description(asked, history=bool(asked.arguments["history"])))


async def _checkpoints(asked: Asked) -> object:
    description = await _description(asked)
    return {
        "checkpoints": message_json(description.checkpoints),
        "savepoints": [message_json(each) for each in description.savepoints],
        "as_of_ms": description.as_of_ms,
        "age_ms": description.age_ms,
    }


async def _description(asked: Asked, *, history: bool = False) -> status_pb2.JobDescription:
    found: status_pb2.JobDescription = await asked.call(
        "DescribeJob",
        status_pb2.DescribeJobRequest(job=asked.arguments["job"], with_history=history),
    )
    return found


async def _servers(asked: Asked) -> object:
    return message_json(await asked.call("ListServers", status_pb2.ListServersRequest()))


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/jobs/{job}",
        name="describeJob",
        summary="Describes a job: what is wrong, its errors, rates, batches, watermark, "
        "checkpoints, operators and their placement.",
        parameters=(JOB, _HISTORY, TIMEOUT),
        answer=_job,
        schema=schemas.of(status_pb2.JobDescription),
    ),
    Route(
        method="GET",
        path="/api/v1/jobs/{job}/checkpoints",
        name="listCheckpoints",
        summary="Describes the checkpoints of a job, and the savepoints that are being written.",
        parameters=(JOB, TIMEOUT),
        answer=_checkpoints,
        schema=schemas.fields(
            checkpoints=schemas.of(status_pb2.CheckpointStatus),
            savepoints=schemas.rows(schemas.of(status_pb2.SnapshotProgress)),
            as_of_ms=schemas.NUMBER,
            age_ms=schemas.NUMBER,
        ),
    ),
    Route(
        method="GET",
        path="/api/v1/servers",
        name="listServers",
        summary="Lists the state servers, with their leases and key groups.",
        parameters=(TIMEOUT,),
        answer=_servers,
        schema=schemas.of(status_pb2.ListServersResponse),
    ),
)
"""The paths, as declared."""
