"""The state of a job over HTTP, with FastAPI: settings and answers are those of `answers.py`.

    pip install spark-queryable-state fastapi uvicorn
    cd examples/web && uvicorn fastapi_app:app

    GET /values/sensor_1               one value, with its age; 404 if nothing is stored
    GET /values?key=sensor_1&key=x     many values
    GET /health                        200 if a server answers

An answer is 503 with `Retry-After` while no server answers. With `?max_age_s=5` it is 503 also if
the newest batch that the server knows is older.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any

from answers import Settings, error_answer, value_answer, values_answer
from fastapi import FastAPI, Query, Request
from fastapi.responses import JSONResponse

from queryable_state.client import Consistency, QueryableStateClient, QueryableStateError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Opens one client for all requests. It batches their look-ups, and connects again by itself
    after a server was away: neither the start of the application nor a request waits for it."""
    app.state.settings = settings = Settings.from_environment()
    async with settings.client() as app.state.client:
        yield


app = FastAPI(lifespan=lifespan)


@app.exception_handler(QueryableStateError)
async def refused(_: Request, error: QueryableStateError) -> JSONResponse:
    """Answers with the status of an error."""
    status, body, headers = error_answer(error)
    return JSONResponse(body, status, headers)


@app.get("/values/{key}")
async def value(request: Request, key: str, max_age_s: float | None = None) -> dict[str, Any]:
    """The value under one key."""
    client, settings = _of(request)
    consistency = Consistency.COMMITTED if max_age_s is None else Consistency.within(max_age_s)
    state = await client.get_kv_state(settings.job, settings.state, key, consistency=consistency)
    return value_answer(key, state, settings)


@app.get("/values")
async def values(request: Request, key: Annotated[list[str], Query()]) -> dict[str, Any]:
    """The values under many keys, all from one batch."""
    client, settings = _of(request)
    found = await client.multi_get(settings.job, settings.state, key, one_cut=True)
    return values_answer(found, settings)


@app.get("/health")
async def health(request: Request) -> dict[str, str]:
    """Whether a server knows the state."""
    client, settings = _of(request)
    await client.describe_state(settings.job, settings.state)
    return {"status": "ok"}


def _of(request: Request) -> tuple[QueryableStateClient, Settings]:
    return request.app.state.client, request.app.state.settings
