"""REST path of scans, page by page."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from queryable_state.server.web.api import schemas
from queryable_state.server.web.api.parameters import JOB, READING, STATE, WINDOW, Parameter
from queryable_state.server.web.api.proto_json import message_json
from queryable_state.server.web.api.route import JsonText, Route
from queryable_state.server.web.http.error_answers import error_json
from queryable_state.server.web.in_process_service import EnoughError
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import InvalidRequestError, QueryableStateError
from queryable_state.wire.keys.time_window import TimeWindow

if TYPE_CHECKING:
    from queryable_state.server.web.api.asked import Asked

_PAGE = 100
_MOST = 10_000
# A page ends after so many bytes of JSON, if they are there before its number of keys.
_PAGE_BYTES = 1 << 20


async def _scan(asked: Asked) -> object:
    arguments = asked.arguments
    request = query_pb2.ScanKvStateRequest(
        **asked.read_options(),
        json=True,
        limit=arguments["limit"] or _PAGE,
        page_token=_token(arguments["cursor"] or ""),
        keys_only=bool(arguments["keys_only"]),
        allow_newer=bool(arguments["allow_newer"]),
    )
    if arguments["prefix"] is not None:
        texts = (await asked.service.located(request)).json
        request.prefix_json = texts.key_of_word(arguments["prefix"])
    page = _Page()
    await asked.service.stream("ScanKvState", request, page.add, asked.timeout_ms)
    return page.answer()


def _token(cursor: str) -> bytes:
    try:
        return base64.b64decode(cursor, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise InvalidRequestError(
            "cursor is not one of this server: pass the `cursor` of the page before, or none"
        ) from None


class _Page:
    """Messages of a scan, until they are a page."""

    def __init__(self) -> None:
        self._keys: list[dict[str, Any]] = []
        self._bytes = 0
        self._last = query_pb2.ScanKvStateResponse()

    async def add(self, message: query_pb2.ScanKvStateResponse) -> None:
        """Adds a message; raises `EnoughError` if the page is large."""
        self._last = message
        self._bytes += message.ByteSize()
        self._keys.extend(map(_scanned, message.keys))
        if self._bytes > _PAGE_BYTES and not message.last:
            raise EnoughError

    def answer(self) -> dict[str, Any]:
        """The page, with the cursor of the next one if there may be one."""
        answer: dict[str, Any] = {
            "keys": self._keys,
            "info": message_json(self._last.info),
            # Before the end it is not known yet.
            "complete": self._last.complete or bool(self._last.page_token),
            "newer": self._last.newer,
        }
        if self._last.page_token:
            answer["cursor"] = base64.urlsafe_b64encode(self._last.page_token).decode()
        return answer


def _scanned(found: query_pb2.ScannedKey) -> dict[str, Any]:
    answer: dict[str, Any] = {"key": JsonText(found.key_json)}
    if found.HasField("error"):
        answer |= error_json(QueryableStateError.from_proto(found.error))
    elif found.value_json:
        answer["value"] = JsonText(found.value_json)
    if found.HasField("remaining_ms"):
        answer["remaining_ms"] = found.remaining_ms
    if found.HasField("window"):
        answer["window"] = TimeWindow.of_proto(found.window).jsonable()
    return answer


ROUTES = (
    Route(
        method="GET",
        path="/api/v1/jobs/{job}/states/{state}/scan",
        name="scan",
        summary="Reads the keys of a state, page by page, all pages at one batch.",
        parameters=(
            JOB,
            STATE,
            Parameter(
                name="limit",
                kind="whole number",
                least=1,
                most=_MOST,
                meaning=f"Most keys of the page; default: {_PAGE}.",
            ),
            Parameter(
                name="cursor",
                kind="text",
                meaning="`cursor` of the page before, with the same other parameters.",
            ),
            Parameter(
                name="prefix",
                kind="text",
                meaning="Only keys that begin so: the start of a string, or a JSON array of the "
                "first fields.",
            ),
            Parameter(name="keys_only", kind="flag", meaning="1 leaves out the values."),
            Parameter(
                name="allow_newer",
                kind="flag",
                meaning="1 continues at the newest batch if that of the cursor is compacted; the "
                "page then says `newer`.",
            ),
            *WINDOW,
            *READING,
        ),
        answer=_scan,
        schema=schemas.fields(
            "cursor",
            keys=schemas.rows(
                schemas.fields(
                    "value",
                    "remaining_ms",
                    "window",
                    "error",
                    key=schemas.ANYTHING,
                    value=schemas.ANYTHING,
                    remaining_ms=schemas.NUMBER,
                    window=schemas.WINDOW,
                    error=schemas.COMPONENTS["Error"]["properties"]["error"],
                )
            ),
            info=schemas.of(query_pb2.ReadInfo),
            complete=schemas.FLAG,
            newer=schemas.FLAG,
            cursor=schemas.TEXT,
        ),
    ),
)
"""The paths, as declared."""
