"""Limits of a serialized request, checked by work that is bounded by the limit itself.

The parser makes an object of every repeated field and holds the interpreter for the whole
request: millions of empty keys fit in a few megabytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from google.protobuf.message import DecodeError

from queryable_state.wire.errors import InvalidRequestError, LimitExceededError

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.settings import Limits

# What fits in so many bytes is parsed in a few milliseconds, whatever it is.
_SHORT_BYTES = 64 * 1024
# Fields of a request beside the repeated ones.
_SINGLE_FIELDS = 64
# A proxy's request for a part of the keys may have that much more beside them.
_ENVELOPE_BYTES = 64 * 1024
_MOST_KEY_GROUPS = 32767

_VARINT, _FIXED64, _DELIMITED, _FIXED32 = 0, 1, 2, 5

_Message = TypeVar("_Message")


def fields_of_keys(limits: Limits) -> int:
    """Fields that a request for many keys may have: each key may come with an element."""
    return 2 * limits.batch_keys + _SINGLE_FIELDS


def most_fields(method: str, limits: Limits) -> int:
    """Fields that the request of a method may have."""
    if method == "BatchGetKvState":
        return fields_of_keys(limits)
    # Runs of key groups do not touch each other, or they would be one.
    return _MOST_KEY_GROUPS // 2 + _SINGLE_FIELDS if method == "ScanKvState" else _SINGLE_FIELDS


def parser(
    parse: Callable[[bytes], _Message], name: str, most: int, limits: Limits, *, within: int = 0
) -> Callable[[bytes], _Message]:
    """Parses requests `name` of at most `most` fields, also counted in those of field `within`.

    The parser raises `InvalidRequestError` for all others.
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
    """Raises for a request that is too long, by more than so many bytes."""
    if request_bytes > limits.request_bytes + more:
        raise LimitExceededError(
            f"a request of {request_bytes:,} bytes, {limits.request_bytes:,} allowed "
            "(spark.queryable_state.request_bytes): split it"
        )


def check_fields(data: bytes, most: int, *, within: int = 0) -> None:
    """Raises for a message of more fields than `most`.

    A malformed rest is left to the parser, which stops there, too.
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
    """Raises for a job's or state's name that is too long."""
    if len(name) > limits.name_bytes:
        raise LimitExceededError(
            f"the {what} has {len(name):,} characters, {limits.name_bytes:,} allowed"
        )


def check_json(what: str, text: str, limits: Limits) -> None:
    """Raises for a key in JSON that is too long to be read."""
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
    """Checks the names by which a request says its state."""
    check_name("job", request.job, limits)
    check_name("state_name", request.state_name, limits)
