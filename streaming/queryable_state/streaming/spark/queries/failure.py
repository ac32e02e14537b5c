"""Transport of our errors to the driver's program, inside the text of Spark's errors."""

from __future__ import annotations

import ast
import json
import logging
import re
from typing import TYPE_CHECKING, Any

from py4j.protocol import Py4JError

from queryable_state.server.coordinator import RunFailure
from queryable_state.streaming.runtime.user_code import shortened, users_traceback
from queryable_state.v1 import errors_pb2, status_pb2
from queryable_state.wire.errors import (
    InternalError,
    InvalidRequestError,
    QueryableStateError,
    Reason,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql.streaming.query import StreamingQuery

_log = logging.getLogger("queryable_state.streaming")

_TRACE = "The function's own traceback:"
_MOST_OF_TRACE = 4000
PY4J_MODULE = "py4j.protocol."
"""What no text for Spark may contain: Spark's search for its own py4j errors overflows the stack of
the query's thread in a long text that follows this."""
# The end of a traceback: class and text, our note, then other notes. Spark may append SQLSTATE.
_TYPED = re.compile(
    r"^(?:[\w]+\.)*(?P<class>\w+): (?P<text>(?:(?!^(?:\w+\.)*\w+Error: ).)*?)"
    r"^\[queryable-state: (?P<reason>\w+)\]$"
    rf"(?:\n(?P<trace>{re.escape(_TRACE)}$.*?)(?=\n SQLSTATE|\n\tat |\n===|\s*\Z))?",
    re.MULTILINE | re.DOTALL,
)

# As `where` and `_user_error` of the operators write them.
_PLACE = re.compile(
    r"operator '(?P<operator>.*?)' \(uid .*?\), subtask \d+ of \d+, batch (?P<batch>-?\d+)"
)
_IN_FUNCTION = re.compile(
    r"batch -?\d+: (?P<what>\w+) failed for key (?P<key>.*?): (?P<cause>\w+: .*), "
    r"at the element (?P<record>.*)",
    re.DOTALL,
)
_PYTHON_ERROR = re.compile(r"^(?:\w+\.)*\w*(?:Error|Exception): (?=\S).*$", re.MULTILINE)

# The traceback of a worker that fails while it unpickles a function, before our code runs.
_UNLOADED = re.compile(r", in read_command$.*?^(?P<cause>(?:\w+\.)*\w+Error: .*?)$", re.M | re.S)


def failed_in_task(error: QueryableStateError) -> QueryableStateError:
    """Logs the failure of a task, and prepares the error to be raised there."""
    _log.warning("a task failed: %s", error)
    return to_be_carried(error)


def to_be_carried(error: QueryableStateError) -> QueryableStateError:
    """Prepares an error to be raised in a worker or in a function of a batch.

    A note carries the reason. Spark drops the cause of an error, so the traceback of a user
    function becomes a note too. Our own traceback is removed, unless it is an InternalError.
    """
    marker = f"[queryable-state: {error.reason_name}]"
    if isinstance(error, InternalError):
        error.add_note(marker)
        return error
    notes = [*getattr(error, "__notes__", ())]
    cause = error.__cause__
    traces = [note for note in notes if note.startswith(_TRACE)]
    if cause is not None and not isinstance(cause, QueryableStateError):
        trace = users_traceback(cause).replace(PY4J_MODULE, "")
        traces = [f"{_TRACE}\n{shortened(trace, _MOST_OF_TRACE)}"]
    error.__notes__ = [note for note in notes if not note.startswith(_TRACE)] + [marker, *traces]
    return error.with_traceback(None)


def failure_of(query: StreamingQuery) -> Exception | None:
    """The failure of a query: our error if one caused it, else Spark's; None if it did not fail."""
    error = query.exception()
    if error is None:
        return None
    text = _root_message(query) or str(error)
    return typed_error(text) or error


def typed_error(text: str) -> QueryableStateError | None:
    """Parses our error from the text of a worker's traceback; None if there is none.

    InvalidRequestError if the worker could not load a function.
    """
    matches = list(_TYPED.finditer(text))
    if not matches or matches[-1]["reason"] not in Reason.keys():  # noqa: SIM118 - not a mapping
        return _unloaded(text)
    found = matches[-1]
    reason, message = Reason.Value(found["reason"]), found["text"].strip()
    error = QueryableStateError.from_proto(errors_pb2.Error(reason=reason, message=message))
    for known in _classes(QueryableStateError):
        if known.__name__ == found["class"]:
            error = known(message, reason=reason)
    if found["trace"]:
        error.add_note(found["trace"].strip())
    return error


def _unloaded(text: str) -> InvalidRequestError | None:
    """The error of a function that a worker cannot load, which Spark reports as a traceback."""
    found = _UNLOADED.search(text)
    if found is None:
        return None
    return InvalidRequestError(
        f"a worker cannot load a function of the query: {found['cause']}. Workers import the "
        "modules of functions by name. Add those of the program with env.add_python_file(path), "
        "and install the others in the Python of the executors"
    )


def run_failure(text: str, known: QueryableStateError | None = None) -> RunFailure:
    """The cause of a failed run in the text of Spark's error.

    `known`: the error with which the coordinator stopped the query; None: it did not.
    """
    error = known or typed_error(text)
    if error is None:
        return RunFailure(message=_spark_cause(text))
    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith(_TRACE)]
    found = _PLACE.search(error.message)
    failed = _IN_FUNCTION.search(error.message)
    message = error.message
    if failed is not None:
        message = f"{failed['what']} failed: {failed['cause']}"
    return RunFailure(
        message=message,
        reason=error.reason_name,
        operator=found["operator"] if found else "",
        key_json=_json_of(failed["key"]) if failed else "",
        record=failed["record"] if failed else "",
        batch_id=int(found["batch"]) if found else -1,
        traceback=notes[0].removeprefix(_TRACE).strip() if notes else "",
    )


def attempt_error(error: QueryableStateError) -> status_pb2.JobError:
    """The error of a failed attempt at a task, after `failed_in_task`; its run is not set."""
    return run_failure("", error).to_proto()


def _spark_cause(text: str) -> str:
    """The innermost cause that a text of Spark names: class and message."""
    causes = [line for line in text.splitlines() if line.startswith("Caused by: ")]
    python = _PYTHON_ERROR.findall(text)
    if python:
        return str(python[-1])
    if causes:
        return causes[-1].removeprefix("Caused by: ").strip()
    return next((line.strip() for line in text.splitlines() if line.strip()), "unknown")


def _json_of(shown_key: str) -> str:
    """A key as error texts show it, as JSON; the text itself if it is no literal."""
    try:
        return json.dumps(ast.literal_eval(shown_key), ensure_ascii=False)
    except (ValueError, SyntaxError, TypeError):
        return shown_key


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
