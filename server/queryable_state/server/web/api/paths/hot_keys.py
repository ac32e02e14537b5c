"""REST paths of the keys that are touched most often."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.web.api import schemas
from queryable_state.server.web.api.parameters import JOB, STATE, TIMEOUT, Parameter
from queryable_state.server.web.api.proto_json import message_json
from queryable_state.server.web.api.route import Route
from queryable_state.v1 import hot_keys_pb2

if TYPE_CHECKING:
    from queryable_state.server.web.api.asked import Asked

_LIMIT = Parameter(
    name="limit",
    kind="whole number",
    least=1,
    most=1000,
    meaning="Most keys of one state and side; default: 10.",
)


async def _hot_keys(asked: Asked) -> object:
    request = hot_keys_pb2.ListHotKeysRequest(
        job=asked.arguments["job"],
        state_name=asked.arguments.get("state", ""),
        limit=asked.arguments["limit"] or 0,
    )
    return message_json(await asked.call("ListHotKeys", request))


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/jobs/{job}/hot-keys",
        name="listHotKeysOfJob",
        summary="Lists the keys of each state that queries and tasks touched most in the last "
        "minute.",
        parameters=(JOB, _LIMIT, TIMEOUT),
        answer=_hot_keys,
        schema=schemas.of(hot_keys_pb2.ListHotKeysResponse),
    ),
    Route(
        method="GET",
        path="/api/v1/jobs/{job}/states/{state}/hot-keys",
        name="listHotKeys",
        summary="Lists the keys of one state that queries and tasks touched most in the last "
        "minute.",
        parameters=(JOB, STATE, _LIMIT, TIMEOUT),
        answer=_hot_keys,
        schema=schemas.of(hot_keys_pb2.ListHotKeysResponse),
    ),
)
"""The paths, as declared."""
