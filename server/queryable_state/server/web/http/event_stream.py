"""Server-sent events of one answer."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

from aiohttp import web

from queryable_state.server.web.api.route import Event
from queryable_state.server.web.http.error_answers import error_json
from queryable_state.server.web.in_process_service import EnoughError
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from queryable_state.server.web.api.route import EventStream
    from queryable_state.server.web.http.bodies import Bodies

_HEADERS = {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-store",
    # Balancers would collect events.
    "X-Accel-Buffering": "no",
}


async def send_events(
    request: web.BaseRequest,
    stream: EventStream,
    headers: Mapping[str, str],
    bodies: Bodies,
    *,
    timeout_s: float,
) -> web.StreamResponse:
    """Sends the events of a stream until it ends, or the client has gone.

    A refusal before the first event is raised; a later one is an event `error`. An event for
    which the process has no room ends the stream with such a refusal: the client resumes it. A
    client that does not read an event within `timeout_s` loses its connection.
    """
    answer = web.StreamResponse(headers={**headers, **_HEADERS})

    async def send(event: Event) -> None:
        text = _text(event)
        try:
            with bodies.held_answer(len(text)):
                async with asyncio.timeout(timeout_s):
                    if not answer.prepared:
                        await answer.prepare(request)
                    await answer.write(text)
        except TimeoutError:
            if request.transport is not None:
                request.transport.abort()
            raise EnoughError from None
        except ConnectionError:
            raise EnoughError from None

    try:
        await stream.run(send)
    except QueryableStateError as refusal:
        if not answer.prepared:
            raise
        try:
            await send(Event(json.dumps(error_json(refusal)), name="error"))
        except EnoughError:
            pass
    return answer


def _text(event: Event) -> bytes:
    lines = [] if event.name == "message" else [f"event: {event.name}"]
    if event.event_id:
        lines.append(f"id: {event.event_id}")
    lines.append(f"data: {event.data}")
    return ("\n".join(lines) + "\n\n").encode("utf-8", "replace")
