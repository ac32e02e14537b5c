"""The state of a job over HTTP, with aiohttp: settings and answers are those of `answers.py`.

    pip install spark-queryable-state aiohttp
    cd examples/web && python aiohttp_app.py

Same paths and answers as `fastapi_app.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from aiohttp import web
from answers import Settings, error_answer, value_answer, values_answer

from queryable_state.client import Consistency, QueryableStateClient, QueryableStateError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

SETTINGS = web.AppKey("settings", Settings)
CLIENT = web.AppKey("client", QueryableStateClient)

routes = web.RouteTableDef()


async def lifespan(app: web.Application) -> AsyncIterator[None]:
    """Opens one client for all requests. It batches their look-ups, and connects again by itself
    after a server was away: neither the start of the application nor a request waits for it."""
    async with app[SETTINGS].client() as client:
        app[CLIENT] = client
        yield


@web.middleware
async def refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answers with the status of an error."""
    try:
        return await handler(request)
    except QueryableStateError as error:
        status, body, headers = error_answer(error)
        return web.json_response(body, status=status, headers=headers)


@routes.get("/values/{key}")
async def value(request: web.Request) -> web.Response:
    """The value under one key."""
    settings, key = request.app[SETTINGS], request.match_info["key"]
    max_age_s = request.query.get("max_age_s")
    state = await request.app[CLIENT].get_kv_state(
        settings.job,
        settings.state,
        key,
        consistency=Consistency.within(float(max_age_s)) if max_age_s else Consistency.COMMITTED,
    )
    return web.json_response(value_answer(key, state, settings))


@routes.get("/values")
async def values(request: web.Request) -> web.Response:
    """The values under many keys, all from one batch."""
    settings = request.app[SETTINGS]
    keys = request.query.getall("key", [])
    found = await request.app[CLIENT].multi_get(settings.job, settings.state, keys, one_cut=True)
    return web.json_response(values_answer(found, settings))


@routes.get("/health")
async def health(request: web.Request) -> web.Response:
    """Whether a server knows the state."""
    settings = request.app[SETTINGS]
    await request.app[CLIENT].describe_state(settings.job, settings.state)
    return web.json_response({"status": "ok"})


def application() -> web.Application:
    """The application, with the settings of the environment."""
    app = web.Application(middlewares=[refusals])
    app[SETTINGS] = Settings.from_environment()
    app.cleanup_ctx.append(lifespan)
    app.add_routes(routes)
    return app


if __name__ == "__main__":
    web.run_app(application())
