"""Errors of a worker, found again in the text Spark carries to the driver."""

from __future__ import annotations

import traceback
from typing import Any

import pytest

from queryable_state.streaming.functions import UserFunctionError
from queryable_state.streaming.spark.queries.failure import to_be_carried, typed_error
from queryable_state.wire.errors import (
    InternalError,
    JobError,
    KeyTypeError,
    QueryableStateError,
    Reason,
    SerializationError,
)


def as_spark_carries(error: QueryableStateError) -> str:
    """The text of a worker's error, with what Spark puts around it."""
    try:
        raise to_be_carried(error) from None
    except QueryableStateError as raised:
        text = "".join(traceback.format_exception(raised))
    return f"[PYTHON_EXCEPTION] An exception was thrown: {text} SQLSTATE: 38000\n=== Query ===\nx"


@pytest.mark.parametrize(
    "error",
    [
        JobError("two claim 'x'", reason=Reason.DUPLICATE_NAME),
        KeyTypeError("a null key:\nin batch 3"),
        SerializationError("not a bigint"),
        InternalError("a defect: KeyError: 'x'"),
    ],
)
def test_class_reason_and_text_arrive(error: QueryableStateError) -> None:
    found = typed_error(as_spark_carries(error))
    assert type(found) is type(error)
    assert found is not None
    assert (found.reason, str(found)) == (error.reason, str(error))


def test_the_traceback_of_a_users_function_arrives_as_a_note() -> None:
    error = UserFunctionError("operator 'x', key 'a': ZeroDivisionError: division by zero")
    try:
        1 / 0  # noqa: B018 - what a user's function does
    except ZeroDivisionError as cause:
        error.__cause__ = cause
    found = typed_error(as_spark_carries(error))
    assert isinstance(found, UserFunctionError)
    assert found.reason == Reason.USER_FUNCTION_FAILED
    (note,) = found.__notes__
    assert "1 / 0" in note
    assert note.endswith("ZeroDivisionError: division by zero")


def test_a_failed_function_is_an_error_of_the_job_also_where_its_class_is_not_known() -> None:
    found = QueryableStateError.from_proto(UserFunctionError("it raised").to_proto())
    assert (type(found), found.reason) == (JobError, Reason.USER_FUNCTION_FAILED)


def test_what_is_not_ours_is_none() -> None:
    assert typed_error("Traceback ...\nValueError: x\n SQLSTATE: 38000") is None
    assert typed_error("queryable_state.wire.errors.JobError: x\n[queryable-state: NEW]\n") is None


def test_the_traceback_of_a_users_function_begins_in_his_program() -> None:
    """Frames of this package, which called the function, are left out; causes stay."""

    def fail() -> None:
        try:
            int("x")
        except ValueError as cause:
            raise KeyError("unknown") from cause

    error = UserFunctionError("operator 'x'")
    with pytest.raises(KeyError) as failed:
        runpy_like(fail)
    error.__cause__ = failed.value.with_traceback(failed.tb.tb_next)
    found = typed_error(as_spark_carries(error))
    assert found is not None
    (note,) = found.__notes__
    assert "runpy_like" not in note
    assert note.count("in fail") == 2
    assert "ValueError: invalid literal" in note
    assert note.endswith("KeyError: 'unknown'")


def test_an_error_that_was_carried_is_carried_again() -> None:
    """From a worker into the function of a batch, and from there to the query."""
    error = UserFunctionError("operator 'x'")
    error.add_note("key 'a'")
    try:
        1 / 0  # noqa: B018 - what a user's function does
    except ZeroDivisionError as cause:
        error.__cause__ = cause
    once = typed_error(as_spark_carries(error))
    assert once is not None
    text = as_spark_carries(once)
    twice = typed_error(text)
    assert twice is not None
    assert (str(twice), twice.reason) == (str(once), Reason.USER_FUNCTION_FAILED)
    assert twice.__notes__ == [note for note in once.__notes__ if note.startswith("The function's")]
    assert text.count("[queryable-state: ") == 1


# Called from a file of this package, as user functions are.
_NAMES: dict[str, Any] = {}
_FILE = "/x/queryable_state/streaming/run.py"
exec(compile("def runpy_like(call):\n    call()\n", _FILE, "exec"), _NAMES)
runpy_like = _NAMES["runpy_like"]
