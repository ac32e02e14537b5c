"""Transport of our errors from a worker to the driver, inside the text of Spark's errors."""

from __future__ import annotations

import re
import traceback
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from queryable_state.v1 import errors_pb2
from queryable_state.wire.errors import InternalError, QueryableStateError, Reason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.streaming.query import StreamingQuery

_TRACE = "The function's own traceback:"
# The end of a traceback: class and text, our note, then other notes. Spark may append SQLSTATE.
_TYPED = re.compile(
    r"^(?:[\w]+\.)*(?P<class>\w+): (?P<text>(?:(?!^(?:\w+\.)*\w+Error: ).)*?)"
    r"^\[queryable-state: (?P<reason>\w+)\]$"
    rf"(?:\n(?P<trace>{re.escape(_TRACE)}$.*?)(?=\n SQLSTATE|\n\tat |\n===|\s*\Z))?",
    re.MULTILINE | re.DOTALL,
)


def to_be_carried(error: QueryableStateError) -> QueryableStateError:
    """Prepares an error to be raised in a worker.

    A note carries the reason. Spark drops the cause of an error, so the traceback of a user
    function becomes a note too. Our own traceback is removed, unless it is an InternalError.
    """
    error.add_note(f"[queryable-state: {error.reason_name}]")
    if isinstance(error, InternalError):
        return error
    cause = error.__cause__
    if cause is not None and not isinstance(cause, QueryableStateError):
        lines = traceback.format_exception(cause)
        error.add_note(f"{_TRACE}\n{''.join(lines).rstrip()}")
    return error.with_traceback(None)


def failure_of(query: StreamingQuery) -> Exception | None:
    """The failure of a query: our error if one caused it, else Spark's; None if it did not fail."""
    error = query.exception()
    if error is None:
        return None
    text = _root_message(query) or str(error)
    return typed_error(text) or error


def typed_error(text: str) -> QueryableStateError | None:
    """Parses our error from the text of a worker's traceback; None if there is none."""
    matches = list(_TYPED.finditer(text))
    if not matches or matches[-1]["reason"] not in Reason.keys():  # noqa: SIM118 - not a mapping
        return None
    found = matches[-1]
    reason, message = Reason.Value(found["reason"]), found["text"].strip()
    error = QueryableStateError.from_proto(errors_pb2.Error(reason=reason, message=message))
    for known in _classes(QueryableStateError):
        if known.__name__ == found["class"]:
            error = known(message, reason=reason)
    if found["trace"]:
        error.add_note(found["trace"].strip())
    return error


def _classes(base: type[QueryableStateError]) -> Iterator[type[QueryableStateError]]:
    for known in base.__subclasses__():
        yield known
        yield from _classes(known)


def _root_message(query: Any) -> str | None:
    """Message of the root cause, which contains the worker's traceback."""
    try:
        cause = query._jsq.exception().get()
        while cause.getCause() is not None:
            cause = cause.getCause()
        message = cause.getMessage()
    except (Py4JError, AttributeError, OSError):
        return None
    return None if message is None else str(message)
