"""Why a query failed: our errors found again in the text Spark carries from a worker."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from queryable_state.v1 import errors_pb2
from queryable_state.wire.errors import QueryableStateError, Reason

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_NOTE = "[queryable-state: {name}]"
# A traceback shows the raising line too, so the last match is the message itself.
_TYPED = re.compile(
    r"^(?:queryable_state\.wire\.errors\.)?\w+Error: (?P<message>(?:(?!^\w[\w.]*Error: ).)*?)"
    r"^\[queryable-state: (?P<name>\w+)\]$",
    re.MULTILINE | re.DOTALL,
)


def reason_note(error: QueryableStateError) -> str:
    """The line that tells an error's reason below its text in a traceback."""
    return _NOTE.format(name=error.reason_name)


def failure_of(query: StreamingQuery) -> Exception | None:
    """What ended a query: an error of ours where it was one, else Spark's; None: nothing did."""
    error = query.exception()
    if error is None:
        return None
    text = _root_message(query) or str(error)
    return typed_error(text) or error


def typed_error(text: str) -> QueryableStateError | None:
    """The error of ours that a worker's traceback ends with."""
    matches = list(_TYPED.finditer(text))
    if not matches or matches[-1]["name"] not in Reason.keys():  # noqa: SIM118 - not a mapping
        return None
    found = matches[-1]
    return QueryableStateError.from_proto(
        errors_pb2.Error(reason=Reason.Value(found["name"]), message=found["message"].strip())
    )


def _root_message(query: Any) -> str | None:
    """Message of the first of the causes, which is the worker's own text."""
    try:
        cause = query._jsq.exception().get()
        while cause.getCause() is not None:
            cause = cause.getCause()
        message = cause.getMessage()
    except (Py4JError, AttributeError, OSError):
        return None
    return None if message is None else str(message)
