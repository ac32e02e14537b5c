"""REST path of the size of a state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.web.api import schemas
from queryable_state.server.web.api.parameters import JOB, STATE, TIMEOUT
from queryable_state.server.web.api.proto_json import message_json
from queryable_state.server.web.api.route import Route
from queryable_state.v1 import query_pb2

if TYPE_CHECKING:
    from queryable_state.server.web.api.asked import Asked


async def _size(asked: Asked) -> object:
    request = query_pb2.MeasureStateRequest(
        job=asked.arguments["job"], state_name=asked.arguments["state"]
    )
    return message_json(await asked.call("MeasureState", request))


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/jobs/{job}/states/{state}/size",
        name="measureState",
        summary="Keys, records and bytes of a state: counted, or estimated with their error.",
        parameters=(JOB, STATE, TIMEOUT),
        answer=_size,
        schema=schemas.of(query_pb2.MeasureStateResponse),
    ),
)
"""The paths, as declared."""
