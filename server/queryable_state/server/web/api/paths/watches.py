"""REST path that streams the committed changes of a state as server-sent events."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from queryable_state.server.web.api import schemas
from queryable_state.server.web.api.parameters import JOB, STATE, Parameter
from queryable_state.server.web.api.proto_json import message_json
from queryable_state.server.web.api.route import Event, EventStream, JsonText, Route, written
from queryable_state.v1 import watch_pb2
from queryable_state.wire.errors import InvalidRequestError, shown
from queryable_state.wire.keys.time_window import TimeWindow

if TYPE_CHECKING:
    from queryable_state.server.web.api.asked import Asked
    from queryable_state.server.web.api.route import SendEvent

_EVENT_ID = re.compile(r"([0-9a-f]{32}):(-?[0-9]{1,19})")

_KEY = Parameter(
    name="key",
    kind="text",
    meaning="Only this key, as JSON of its type; strings need no quotes. Not given: every key.",
)
_PREFIX = Parameter(
    name="prefix",
    kind="text",
    meaning="Only keys that begin so: the start of a string, or a JSON array of the first fields.",
)
_AFTER = Parameter(
    name="after_batch",
    kind="whole number",
    least=-1,
    meaning="Changes of later batches than this one; default: the header `Last-Event-ID`, which is "
    "the id of an event, else of batches that are committed from now on.",
)


async def _watch(asked: Asked) -> EventStream:
    request = watch_pb2.WatchKvStateRequest(
        job=asked.arguments["job"], state_name=asked.arguments["state"], json=True
    )
    key, prefix = asked.arguments["key"], asked.arguments["prefix"]
    if key is not None and prefix is not None:
        raise InvalidRequestError("give key or prefix, not both")
    located = await asked.service.located(request)
    job_id = located.registration.job_id.hex()
    # The ids of the events name this job; its name may be that of another one by now.
    request.job = job_id
    if key is not None:
        request.keys_json.append(located.json.key_of_word(key))
    if prefix is not None:
        request.prefix_json = located.json.key_of_word(prefix)
    after = asked.arguments["after_batch"]
    begins_anew = False
    if after is None and asked.last_event_id:
        job_before, after = _position(asked.last_event_id)
        if job_before != job_id:
            begins_anew, after = True, None
    if after is not None:
        request.after_batch = after

    async def run(send: SendEvent) -> None:
        is_open = False

        async def write(message: watch_pb2.WatchKvStateResponse) -> None:
            nonlocal is_open
            if begins_anew and not is_open:
                await send(_event(_gap_up_to(message.batch), job_id))
            is_open = True
            await send(_event(message, job_id))

        await asked.service.stream("WatchKvState", request, write, peer=asked.peer)

    return EventStream(run)


def _position(event_id: str) -> tuple[str, int]:
    """The job and the batch of an event's id; raises `InvalidRequestError` for another text."""
    found = _EVENT_ID.fullmatch(event_id)
    if found is None:
        raise InvalidRequestError(
            f"Last-Event-ID {shown(event_id)!r} is not the id of an event of a watch, which is "
            "JOB:BATCH with the job's id as 32 hex digits: send such an id, or none"
        )
    return found[1], _AFTER.parse(found[2])


def _gap_up_to(batch: int) -> watch_pb2.WatchKvStateResponse:
    """A gap event: the job's batch ids restarted after the event from which to resume."""
    gap = watch_pb2.WatchGap(first_batch=min(0, batch), last_batch=batch)
    return watch_pb2.WatchKvStateResponse(batch=batch, gap=gap)


def _event(message: watch_pb2.WatchKvStateResponse, job_id: str) -> Event:
    """The event of a message; its id is the job and the batch after which a client resumes."""
    body = message_json(message)
    body["changes"] = list(map(_change, message.changes))
    return Event(written(body), event_id=f"{job_id}:{message.batch}" if message.complete else "")


def _change(change: watch_pb2.KvChange) -> dict[str, Any]:
    found: dict[str, Any] = {
        "kind": watch_pb2.ChangeKind.Name(change.kind),
        "key": JsonText(change.key_json),
    }
    for name in ("map_key", "value", "old_value"):
        text = getattr(change, f"{name}_json")
        if text:
            found[name] = JsonText(text)
    if change.HasField("window"):
        found["window"] = TimeWindow.of_proto(change.window).jsonable()
    found["old_unknown"] = change.old_unknown
    return found


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/jobs/{job}/states/{state}/watch",
        name="watch",
        summary="Streams the committed changes of a key, a prefix or a state, each once, as "
        "server-sent events: the data of an event is the JSON of a `WatchKvStateResponse`, whose "
        "changes have `key`, `map_key`, `value` and `old_value` as JSON. An event `error` ends it.",
        parameters=(JOB, STATE, _KEY, _PREFIX, _AFTER),
        answer=_watch,
        schema=schemas.TEXT,
        is_stream=True,
    ),
)
"""The path, as declared."""
