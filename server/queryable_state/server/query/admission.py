"""Admission of queries: their limits, checked before and after they are parsed.

The parser creates an object for every repeated field and holds the interpreter lock for the
whole request, and millions of empty keys fit into a few megabytes. The work of a check is
bounded by the limit it checks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from google.protobuf.message import DecodeError

from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import InvalidRequestError, LimitExceededError, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from queryable_state.server.config.limits import Limits

# A query whose client has silently gone waits so long for a commit.
_LONGEST_DEADLINE_MS = 600_000

_CONSISTENCIES = (query_pb2.COMMITTED, query_pb2.UNCOMMITTED)


def check_consistency(consistency: int) -> None:
    """Raises for an unknown consistency, instead of answering with a weaker one."""
    if consistency not in _CONSISTENCIES:
        raise InvalidRequestError(
            f"consistency {consistency} is unknown to this server: use a value of Consistency",
            reason=Reason.UNSUPPORTED,
        )


def admission(limits: Limits) -> Callable[[query_pb2.Query, Sequence[bytes], int], None]:
    """Returns the admission of queries by these limits: `admit(query, query.keys, frame_bytes)`.

    It raises as `_check_query` does, and shortens a deadline of more than ten minutes.
    """
    most_keys, key_bytes = limits.batch_keys, limits.key_bytes

    def admit(query: query_pb2.Query, keys: Sequence[bytes], frame_bytes: int) -> None:
        # One condition for what nearly every query is; `_check_query` says what is wrong.
        if not (
            query.state_id
            and query.consistency in _CONSISTENCIES
            and 0 < len(keys) <= most_keys
            and frame_bytes <= key_bytes
            and not (query.elements or query.ranges or query.windows)
        ):
            _check_query(query, limits, frame_bytes)
        if query.deadline_ms > _LONGEST_DEADLINE_MS:
            query.deadline_ms = _LONGEST_DEADLINE_MS

    return admit


def _check_query(query: query_pb2.Query, limits: Limits, frame_bytes: int) -> None:
    """Raises `InvalidRequestError` for a query that can never be answered.

    A key is never longer than its frame, so the keys of a short frame need no check.
    """
    if not query.state_id:
        raise InvalidRequestError("a query needs the state_id that LocateState returned")
    check_consistency(query.consistency)
    if not query.keys:
        raise InvalidRequestError("a query needs at least one key")
    check_number_of_keys(len(query.keys), limits)
    # Checked before a proxy splits the query by owner.
    _check_aligned("elements", len(query.elements), len(query.keys))
    _check_aligned("ranges", len(query.ranges), len(query.keys))
    _check_aligned("windows", len(query.windows), len(query.keys))
    if frame_bytes > limits.key_bytes:
        check_longest("encoded key", query.keys, limits)
        check_longest("encoded map key", query.elements, limits)
        check_longest("encoded namespace", (query.namespace,), limits)


def _check_aligned(what: str, given: int, keys: int) -> None:
    """Raises unless there is none, one for all keys, or one for each key."""
    if given not in (0, 1, keys):
        raise InvalidRequestError(
            f"{given} {what} for {keys} keys: pass one for all keys, or one for each key"
        )


def check_number_of_keys(keys: int, limits: Limits) -> None:
    """Raises for more keys than a query may have."""
    if keys > limits.batch_keys:
        raise LimitExceededError(
            f"{keys:,} keys in one query, {limits.batch_keys:,} allowed "
            "(spark.queryable_state.batch_keys): split it"
        )


def check_longest(what: str, encoded: Iterable[bytes], limits: Limits) -> None:
    """Raises if one of the keys is longer than allowed."""
    longest = max(map(len, encoded), default=0)
    if longest > limits.key_bytes:
        raise LimitExceededError(
            f"an {what} has {longest:,} bytes, {limits.key_bytes:,} allowed "
            "(spark.queryable_state.key_bytes)"
        )


# A request of so few bytes is parsed in a few milliseconds, whatever its content.
_SHORT_BYTES = 64 * 1024
# Fields of a request other than the repeated ones.
_SINGLE_FIELDS = 64
# Additional bytes that a proxy's sub-query may have.
_ENVELOPE_BYTES = 64 * 1024
_MOST_KEY_GROUPS = 32767

_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5

_Message = TypeVar("_Message")


def fields_of_keys(limits: Limits) -> int:
    """Returns the allowed fields of a request for many keys: a key and an element each."""
    return 2 * limits.batch_keys + _SINGLE_FIELDS


def most_fields(method: str, limits: Limits) -> int:
    """Returns the allowed number of fields of a method's request."""
    if method in ("BatchGetKvState", "WatchKvState"):
        return fields_of_keys(limits)
    # Runs of key groups are never adjacent: adjacent ones would be one run.
    return _MOST_KEY_GROUPS // 2 + _SINGLE_FIELDS if method == "ScanKvState" else _SINGLE_FIELDS


def parser(
    parse: Callable[[bytes], _Message], name: str, most: int, limits: Limits, *, within: int = 0
) -> Callable[[bytes], _Message]:
    """Returns a parser of requests `name` with at most `most` fields, nested in `within` or not.

    The parser raises `InvalidRequestError` for larger and for malformed requests.
    """

    def parsed(data: bytes) -> _Message:
        if len(data) > _SHORT_BYTES:
            check_size(len(data), limits, _ENVELOPE_BYTES)
            check_fields(data, most, within=within)
        try:
            return parse(data)
        except DecodeError as problem:
            raise InvalidRequestError(f"this is not a {name}: {problem}") from None

    return parsed


def check_size(request_bytes: int, limits: Limits, more: int = 0) -> None:
    """Raises for a request above the limit plus `more` bytes."""
    if request_bytes > limits.request_bytes + more:
        raise LimitExceededError(
            f"a request of {request_bytes:,} bytes, {limits.request_bytes:,} allowed "
            "(spark.queryable_state.request_bytes): split it"
        )


def check_fields(data: bytes, most: int, *, within: int = 0) -> None:
    """Raises for a message with more than `most` fields.

    Stops at a malformed field: the parser fails there, too.
    """
    left = most
    spans = [(0, len(data), within)]
    try:
        while spans:
            at, end, nested = spans.pop()
            while at < end:
                left -= 1
                if left < 0:
                    raise LimitExceededError(
                        f"a request of {len(data):,} bytes has more than {most:,} fields: split "
                        "it, so that it has no more keys than spark.queryable_state.batch_keys"
                    )
                tag, at = _varint(data, at)
                kind = tag & 7
                if kind == _DELIMITED:
                    length, at = _varint(data, at)
                    if nested and tag >> 3 == nested:
                        spans.append((at, min(end, at + length), 0))
                    at += length
                elif kind == _VARINT:
                    _, at = _varint(data, at)
                elif kind == _FIXED64:
                    at += 8
                elif kind == _FIXED32:
                    at += 4
                else:
                    raise InvalidRequestError(
                        f"the field at byte {at} of the request is of wire type {kind}, which no "
                        "request has"
                    )
    except IndexError:
        return


def check_name(what: str, name: str, limits: Limits) -> None:
    """Raises if the name of a job or state is too long."""
    if len(name) > limits.name_bytes:
        raise LimitExceededError(
            f"the {what} has {len(name):,} characters, {limits.name_bytes:,} allowed"
        )


def check_json(what: str, text: str, limits: Limits) -> None:
    """Raises if a key in JSON is too long."""
    if len(text) > limits.key_json_bytes:
        raise LimitExceededError(
            f"the {what} has {len(text):,} characters of JSON, {limits.key_json_bytes:,} allowed "
            "(spark.queryable_state.key_json_bytes)"
        )


def _varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
        if shift > 63:
            raise InvalidRequestError(f"the number at byte {at} of the request is too long")


def located_by(request: Any, limits: Limits) -> None:
    """Checks the names of job and state in a request."""
    check_name("job", request.job, limits)
    check_name("state_name", request.state_name, limits)
