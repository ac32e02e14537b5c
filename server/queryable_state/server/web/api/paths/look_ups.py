"""REST paths of look-ups: a value, many values, the windows and the timers of a key."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from queryable_state.server.query.admission import check_number_of_keys
from queryable_state.server.web.api import schemas
from queryable_state.server.web.api.parameters import (
    JOB,
    KEY,
    LEAST_MS,
    READING,
    STATE,
    TIMEOUT,
    WINDOW,
    Parameter,
)
from queryable_state.server.web.api.proto_json import message_json
from queryable_state.server.web.api.route import JsonText, Route, refuse_constant, written
from queryable_state.server.web.http.error_answers import error_json
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import InvalidRequestError, QueryableStateError
from queryable_state.wire.keys.time_window import window_range

if TYPE_CHECKING:
    from collections.abc import Mapping

    from queryable_state.server.web.api.asked import Asked

_MAP_KEY = Parameter(
    name="map_key", kind="text", meaning="Key of one entry of a map, written as `key`."
)
_EXPLAIN = Parameter(
    name="explain",
    kind="flag",
    meaning="1 answers also with what the servers did for how long, and with 200 for a refusal.",
)
_RANGE = (
    Parameter(
        name="from_ms",
        kind="whole number",
        least=LEAST_MS,
        meaning="Only windows that start at this time or later.",
    ),
    Parameter(
        name="to_ms",
        kind="whole number",
        least=LEAST_MS,
        meaning="Only windows that start before this time.",
    ),
    Parameter(
        name="from_us",
        kind="whole number",
        least=LEAST_MS,
        meaning="Instead of from_ms, in microseconds.",
    ),
    Parameter(
        name="to_us",
        kind="whole number",
        least=LEAST_MS,
        meaning="Instead of to_ms, in microseconds.",
    ),
    Parameter(
        name="newest",
        kind="whole number",
        least=1,
        most=1_000_000,
        meaning="At most this many windows, those that start last.",
    ),
)


async def _value(asked: Asked) -> object:
    request = query_pb2.GetKvStateRequest(
        **asked.read_options(), explain=bool(asked.arguments["explain"])
    )
    await _set_key(asked, request)
    found = await asked.call("GetKvState", request)
    answer = {"key": JsonText(request.key_json), **_found(found)}
    if found.HasField("trace"):
        answer["trace"] = message_json(found.trace)
    return answer


async def _set_key(asked: Asked, request: query_pb2.GetKvStateRequest) -> None:
    """Sets the keys as JSON texts, which needs the types of the state."""
    texts = (await asked.service.located(request)).json
    request.key_json = _json_text(texts.key_of_word(asked.arguments["key"]), "key")
    map_key = asked.arguments.get("map_key")
    if map_key is not None:
        request.map_key_json = texts.map_key_of_word(map_key)
        request.read = query_pb2.ENTRY


def _json_text(text: str, what: str) -> str:
    """The text; raises `InvalidRequestError` unless it is JSON, as a part of an answer must be."""
    try:
        json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        raise InvalidRequestError(
            f"{what} {text[:80]!r} is not JSON; a text needs no quotes, other types are written as "
            'in 7 or ["AA", 3]'
        ) from None
    return text


def _found(
    found: query_pb2.GetKvStateResponse | query_pb2.KeyResult, name: str = "value"
) -> dict[str, Any]:
    """The value of an answer under `name`, or its error, with the batch that was read."""
    answer: dict[str, Any] = {}
    if found.HasField("error"):
        answer |= error_json(QueryableStateError.from_proto(found.error))
    else:
        answer[name] = JsonText(found.value_json)
    if found.HasField("remaining_ms"):
        answer["remaining_ms"] = found.remaining_ms
    if found.HasField("info"):
        answer["info"] = message_json(found.info)
    return answer


async def _values(asked: Asked) -> object:
    keys = asked.body["keys"]
    check_number_of_keys(len(keys), asked.limits)
    texts = [_written_key(key) for key in keys]
    request = query_pb2.BatchGetKvStateRequest(
        **asked.read_options(), keys_json=texts, one_cut=bool(asked.arguments["one_cut"])
    )
    found = await asked.call("BatchGetKvState", request)
    return {
        "values": [
            {"key": JsonText(text), **_found(result)}
            for text, result in zip(texts, found.results, strict=True)
        ]
    }


def _written_key(key: object) -> str:
    """The JSON text of a key of a body; raises `InvalidRequestError`."""
    try:
        text = written(key)
    except RecursionError:
        raise InvalidRequestError("a key of the body is nested too deeply") from None
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidRequestError(
            f"key {text[:80]!r} has one half of a surrogate pair, which is no character"
        ) from None
    return text


async def _windows(asked: Asked) -> object:
    arguments = asked.arguments
    newest = arguments["newest"]
    windows = window_range(_micros(arguments, "from"), _micros(arguments, "to"))
    if newest is not None:
        windows.limit, windows.newest = newest, True
    request = query_pb2.GetKvStateRequest(
        **asked.read_options(), read=query_pb2.WINDOWS, windows=windows
    )
    await _set_key(asked, request)
    found = await asked.call("GetKvState", request)
    return {"key": JsonText(request.key_json), **_found(found, "windows")}


def _micros(arguments: Mapping[str, Any], bound: str) -> int | None:
    """A bound in microseconds, given in these or in milliseconds; None: there is none."""
    ms: int | None = arguments[f"{bound}_ms"]
    us: int | None = arguments[f"{bound}_us"]
    if ms is not None and us is not None:
        raise InvalidRequestError(f"give {bound}_ms or {bound}_us, not both")
    return us if ms is None else ms * 1000


async def _timers(asked: Asked) -> object:
    """Asks each state of the job that keeps timers, one for each operator with timers."""
    listed = await asked.call("ListStates", query_pb2.ListStatesRequest(job=asked.arguments["job"]))
    operators = []
    for state in listed.states:
        if state.kind != registration_pb2.TIMER:
            continue
        request = query_pb2.GetKvStateRequest(
            job=state.job_id.hex(), state_name=state.queryable_name
        )
        answer: dict[str, Any] = {
            "operator_uid": state.operator_uid,
            "queryable_name": state.queryable_name,
        }
        try:
            await _set_key(asked, request)
            answer |= _found(await asked.call("GetKvState", request), "timers")
        except QueryableStateError as refusal:
            # The operators of a job may have keys of other types.
            answer |= error_json(refusal)
        operators.append(answer)
    return {"operators": operators}


_ANSWER = {
    "remaining_ms": schemas.NUMBER,
    "info": schemas.of(query_pb2.ReadInfo),
    "error": schemas.COMPONENTS["Error"]["properties"]["error"],
}
_VALUE = schemas.fields(
    "value", "trace", *_ANSWER,
    key=schemas.ANYTHING, value=schemas.ANYTHING, trace=schemas.of(query_pb2.Trace), **_ANSWER,
)  # fmt: skip
_ONE_VALUE = schemas.fields(
    "value", *_ANSWER, key=schemas.ANYTHING, value=schemas.ANYTHING, **_ANSWER
)

ROUTES = (
    Route(
        method="GET",
        path="/api/v1/jobs/{job}/states/{state}/value",
        name="getValue",
        summary="Reads the value of one key.",
        parameters=(JOB, STATE, KEY, _MAP_KEY, *WINDOW, _EXPLAIN, *READING),
        answer=_value,
        schema=_VALUE,
    ),
    Route(
        method="POST",
        path="/api/v1/jobs/{job}/states/{state}/values",
        name="getValues",
        summary="Reads the values of many keys; a key without one has an error in its place.",
        parameters=(
            JOB,
            STATE,
            Parameter(name="one_cut", kind="flag", meaning="1 reads all keys at one batch."),
            *WINDOW,
            *READING,
        ),
        body=schemas.fields(keys={"type": "array", "items": {}, "minItems": 1}),
        example={"keys": ["sensor_1", "sensor_2"]},
        answer=_values,
        schema=schemas.fields(values=schemas.rows(_ONE_VALUE)),
    ),
    Route(
        method="GET",
        path="/api/v1/jobs/{job}/states/{state}/windows",
        name="getWindows",
        summary="Reads the time windows of one key, by start.",
        parameters=(JOB, STATE, KEY, *_RANGE, *READING),
        answer=_windows,
        schema=schemas.fields(
            *_ANSWER, key=schemas.ANYTHING, windows=schemas.rows({"type": "object"}), **_ANSWER
        ),
    ),
    Route(
        method="GET",
        path="/api/v1/jobs/{job}/timers",
        name="getTimers",
        summary="Reads the pending timers of one key in each operator with timers.",
        parameters=(JOB, KEY, TIMEOUT),
        answer=_timers,
        schema=schemas.fields(
            operators=schemas.rows(
                schemas.fields(
                    "timers",
                    *_ANSWER,
                    operator_uid=schemas.TEXT,
                    queryable_name=schemas.TEXT,
                    timers=schemas.rows({"type": "object"}),
                    **_ANSWER,
                )
            )
        ),
    ),
)
"""The paths, as declared."""
