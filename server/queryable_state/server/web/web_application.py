"""aiohttp application of the web port: REST paths, health, the document and the page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote_to_bytes

from aiohttp import web

from queryable_state.server.serving.error_boundary import to_refusal
from queryable_state.server.web.api.asked import Asked
from queryable_state.server.web.api.json_body import check_body
from queryable_state.server.web.api.openapi import document
from queryable_state.server.web.api.parameters import parsed
from queryable_state.server.web.api.route import EventStream, written
from queryable_state.server.web.api.routes import ROUTES
from queryable_state.server.web.http.authorization import authorization_of
from queryable_state.server.web.http.bodies import BodyRefusedError
from queryable_state.server.web.http.error_answers import error_answer, json_answer, refused
from queryable_state.server.web.http.event_stream import send_events
from queryable_state.server.web.http.security_headers import HEADERS, NOT_STORED
from queryable_state.wire.errors import InvalidRequestError, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from queryable_state.server.config.limits import Limits
    from queryable_state.server.web.api.job_control import JobControl
    from queryable_state.server.web.api.route import Route
    from queryable_state.server.web.http.bodies import Bodies
    from queryable_state.server.web.http.origins import Origins
    from queryable_state.server.web.in_process_service import InProcessService
    from queryable_state.server.web.scrapes import Scrapes

    _Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

_PAGE = Path(__file__).parent / "page"


class WebApplication:
    """Answers requests of the web port."""

    def __init__(
        self,
        service: InProcessService,
        jobs: JobControl,
        bodies: Bodies,
        origins: Origins,
        scrapes: Scrapes,
        *,
        limits: Limits,
        is_serving: Callable[[], bool],
    ) -> None:
        """`is_serving`: whether the process can answer queries."""
        self._service = service
        self._jobs = jobs
        self._bodies = bodies
        self._origins = origins
        self._scrapes = scrapes
        self._limits = limits
        self._is_serving = is_serving

    def application(self) -> web.Application:
        """The aiohttp application."""
        app = web.Application(middlewares=[self._middleware])
        app.router.add_get("/health", self._health)
        app.router.add_get("/metrics", self._scrapes.answer)
        app.router.add_get("/api/v1/openapi.json", _document())
        for route in ROUTES:
            # The router's own pattern of a name excludes braces.
            path = re.sub(r"{(\w+)}", r"{\1:[^/]+}", route.path)
            app.router.add_route(route.method, path, self._handler(route))
        # Each by its name: other paths are refused in JSON.
        for file in sorted(_PAGE.rglob("*")):
            if file.is_file():
                app.router.add_get(f"/{file.relative_to(_PAGE).as_posix()}", _file(file))
        app.router.add_get("/", _file(_PAGE / "index.html"))
        return app

    @web.middleware
    async def _middleware(self, request: web.Request, handler: _Handler) -> web.StreamResponse:
        """Checks host and origin, turns errors into answers, adds headers, and sends."""
        answer = self._origins.refusal(request)
        if answer is None and self._origins.is_preflight(request):
            answer = web.Response(status=204)
        if answer is None:
            answered = await _answered(request, handler)
            if answered.prepared:
                return answered
            if not isinstance(answered, web.Response):
                answered.headers.update(HEADERS)
                # Modules of two versions of the page do not fit together.
                answered.headers.setdefault("Cache-Control", "no-cache")
                return answered
            answer = answered
        try:
            return await self._send(request, answer)
        except RetryLaterError as no_room:
            return await self._send(request, error_answer(no_room))

    async def _send(self, request: web.Request, answer: web.Response) -> web.StreamResponse:
        """Sends an answer with the headers of all answers; raises as `Bodies.send`."""
        answer.headers.update(HEADERS)
        answer.headers.update(self._origins.headers(request))
        return await self._bodies.send(request, answer)

    async def _health(self, _request: web.Request) -> web.Response:
        if self._is_serving():
            return json_answer({"status": "SERVING"}, headers=NOT_STORED)
        return json_answer({"status": "NOT_SERVING"}, 503, NOT_STORED | {"Retry-After": "1"})

    def _handler(self, route: Route) -> _Handler:
        async def answer(request: web.Request) -> web.StreamResponse:
            _check_text(request.path_qs)
            arguments = parsed(route.parameters, request.match_info, request.query.items())
            await self._service.authenticate(authorization_of(request))
            body = None
            if route.body is not None:
                body = await self._bodies.read_json(request)
                check_body(body, route.body)
            asked = Asked(
                service=self._service,
                jobs=self._jobs,
                limits=self._limits,
                arguments=arguments,
                body=body,
                peer=_peer(request),
                last_event_id=request.headers.get("Last-Event-ID", ""),
            )
            found = await route.answer(asked)
            if isinstance(found, EventStream):
                headers = HEADERS | self._origins.headers(request)
                return await send_events(
                    request, found, headers, self._bodies, timeout_s=self._limits.read_timeout_s
                )
            text = written(found)
            return web.Response(
                body=text.encode("utf-8", "replace"),
                headers=NOT_STORED,
                content_type="application/json",
                charset="utf-8",
            )

        return answer


async def _answered(request: web.Request, handler: _Handler) -> web.StreamResponse:
    """The answer of a handler; errors become answers."""
    try:
        return await handler(request)
    except web.HTTPException as refusal:
        headers = {"Allow": refusal.headers["Allow"]} if "Allow" in refusal.headers else None
        return refused(
            refusal.status,
            "INVALID_REQUEST",
            f"{request.method} {request.path[:200]}: {refusal.reason}; /api/v1/openapi.json "
            "describes the paths",
            headers,
        )
    except BodyRefusedError as refusal:
        return refusal.answer
    except ConnectionError:
        raise
    except Exception as failure:  # noqa: BLE001 - the boundary: a defect becomes an answer
        return error_answer(to_refusal(failure, f"{request.method} of the web port"))


def _check_text(url: str) -> None:
    """Raises `InvalidRequestError` if the text of a URL is not UTF-8.

    The replacement characters that the framework decodes it to would be another key.
    """
    try:
        unquote_to_bytes(url).decode()
    except UnicodeError:
        raise InvalidRequestError(
            "the URL is not UTF-8: percent-encode its names and keys as UTF-8"
        ) from None


def _peer(request: web.Request) -> str:
    """Address and port of the client."""
    name = None if request.transport is None else request.transport.get_extra_info("peername")
    return f"http:{name}"


def _file(path: Path) -> _Handler:
    """Answers with a file of the page, which browsers ask for again by its date."""

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.FileResponse(path, headers={"Cache-Control": "no-cache"})

    return answer


def _document() -> _Handler:
    text = json.dumps(document(ROUTES))

    async def answer(_request: web.Request) -> web.Response:
        return web.Response(text=text, content_type="application/json")

    return answer
