"""Declarations of REST paths, from which requests are dispatched and documented."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NoReturn

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from queryable_state.server.web.api.asked import Asked
    from queryable_state.server.web.api.parameters import Parameter

    SendEvent = Callable[["Event"], Awaitable[None]]


@dataclass(frozen=True)
class JsonText:
    """A text that is JSON already, as a part of an answer."""

    text: str


@dataclass(frozen=True)
class Event:
    """One server-sent event."""

    data: str
    """JSON in one line."""
    event_id: str = ""
    """What a client sends as `Last-Event-ID` to resume; empty: as before."""
    name: str = "message"


@dataclass(frozen=True)
class EventStream:
    """An answer of events; `run` sends them until the stream ends."""

    run: Callable[[SendEvent], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Route:
    """One path and method."""

    method: Literal["GET", "POST"]
    path: str
    name: str
    """Unique name, camelCase: `operationId` of the document."""
    summary: str
    answer: Callable[[Asked], Awaitable[object]]
    """Returns the body: what JSON has, and `JsonText` as values of an object or list. Of a stream
    an `EventStream`."""
    schema: Mapping[str, Any]
    """JSON schema of the body of an answer."""
    parameters: tuple[Parameter, ...] = ()
    body: Mapping[str, Any] | None = None
    """JSON schema of the body of a request; None: it has none."""
    example: object = None
    """An example of the body of a request."""
    is_stream: bool = False
    """True: the answer is a stream of server-sent events."""


def refuse_constant(name: str) -> NoReturn:
    """Raises `ValueError` for NaN and infinities, which Python parses and JSON has not."""
    raise ValueError(f'{name} is not JSON; write "{name}"')


def written(value: object) -> str:
    """The JSON text of an answer."""
    if isinstance(value, JsonText):
        return value.text
    if isinstance(value, dict):
        inner = ",".join(f"{json.dumps(name)}:{written(each)}" for name, each in value.items())
        return f"{{{inner}}}"
    if isinstance(value, list):
        return f"[{','.join(map(written, value))}]"
    return json.dumps(value, ensure_ascii=False)
