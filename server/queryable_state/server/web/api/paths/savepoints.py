"""REST path that writes savepoints."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.web.api import schemas
from queryable_state.server.web.api.parameters import JOB, TIMEOUT
from queryable_state.server.web.api.route import Route

if TYPE_CHECKING:
    from queryable_state.server.web.api.asked import Asked


async def _savepoint(asked: Asked) -> object:
    written = await asked.jobs.savepoint(
        asked.arguments["job"],
        asked.body.get("directory", ""),
        stop=asked.body.get("stop", False),
        timeout_ms=asked.timeout_ms,
    )
    return {"path": written.path, "version": written.version}


ROUTES = (
    Route(
        method="POST",
        path="/api/v1/jobs/{job}/savepoints",
        name="triggerSavepoint",
        summary="Writes a savepoint and answers when it is written; needs the grant `admin` of all "
        "states of the job. A directory that is not given is the job's `state.savepoints.dir`.",
        parameters=(JOB, TIMEOUT),
        body=schemas.fields("directory", "stop", directory=schemas.TEXT, stop=schemas.FLAG),
        example={"directory": "/data/savepoints", "stop": False},
        answer=_savepoint,
        schema=schemas.fields(path=schemas.TEXT, version=schemas.NUMBER),
    ),
)
"""The paths, as declared."""
