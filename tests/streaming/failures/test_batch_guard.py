"""Errors of the function of a batch, as py4j hands them to Spark."""

from __future__ import annotations

import re
import traceback
import uuid
from typing import Any

import pytest
from pyspark.errors import AnalysisException

from queryable_state.streaming.functions import UserFunctionError
from queryable_state.streaming.spark.plan.batch_run import BatchGuard
from queryable_state.streaming.spark.queries.failure import to_be_carried, typed_error
from queryable_state.wire.errors import JobError, Reason

QUERY_ID = uuid.uuid4()

# The expression of Spark's StreamExecution; Java's engine recurses once per character of its group.
_SPARKS = re.compile(
    r"py4j.protocol.Py4JJavaError: An error occurred while calling((.|\r\n|\r|\n)*)"
    r"(java.lang.InterruptedException|java.io.InterruptedIOException"
    r"|java.nio.channels.ClosedByInterruptException)"
)
_BEGINNING = "py4j.protocol.Py4JJavaError: An error occurred while calling"


class Frame:
    """What the guard reads of a DataFrame: the local property of its query."""

    @property
    def sparkSession(self) -> Frame:
        return self

    @property
    def sparkContext(self) -> Frame:
        return self

    def getLocalProperty(self, name: str) -> str | None:
        return str(QUERY_ID) if name == "sql.streaming.queryId" else None


def text_of(failure: Exception, *, stopping: bool = False) -> str:
    """The text that crosses py4j."""

    def run(batch: Any, batch_id: int) -> None:
        raise failure

    def is_stopping(query_id: bytes) -> bool:
        assert query_id == QUERY_ID.bytes
        return stopping

    frame: Any = Frame()
    try:
        BatchGuard(run, is_stopping)(frame, 3)
    except Exception as raised:  # noqa: BLE001 - as py4j does
        return "".join(traceback.format_exception(raised))
    pytest.fail("the guard swallowed the error")


def py4j_text(lines: int) -> str:
    trace = "\n".join(
        f"\tat org.apache.spark.Some$class.method(Some.scala:{n})" for n in range(lines)
    )
    return f"{_BEGINNING} o42.save.\n: java.lang.IllegalStateException: x\n{trace}"


def test_the_error_of_a_worker_arrives_as_it_was() -> None:
    try:
        raise to_be_carried(UserFunctionError("operator 'x' failed")) from None
    except UserFunctionError as raised:
        worker = "".join(traceback.format_exception(raised))
    text = text_of(RuntimeError(f"Job aborted due to stage failure: {worker}\n{py4j_text(500)}"))
    assert len(text) < 2_000
    assert _BEGINNING not in text
    found = typed_error(text)
    assert isinstance(found, UserFunctionError)
    assert str(found) == "operator 'x' failed"


def test_an_error_of_this_package_in_the_driver_keeps_its_class() -> None:
    found = typed_error(text_of(JobError("two claim 'x'", reason=Reason.DUPLICATE_NAME)))
    assert isinstance(found, JobError)
    assert (str(found), found.reason) == ("two claim 'x'", Reason.DUPLICATE_NAME)


@pytest.mark.parametrize(
    "failure", [ValueError(py4j_text(2_000)), AnalysisException(py4j_text(2_000))]
)
def test_a_long_text_is_shortened_and_is_none_of_py4j(failure: Exception) -> None:
    """So Spark's expression finds nothing to recurse into."""
    text = text_of(failure)
    assert len(text) < 10_000
    assert _BEGINNING not in text
    found = typed_error(text)
    assert isinstance(found, UserFunctionError)
    assert type(failure).__name__ in str(found)
    assert str(found).startswith("the sinks failed in batch 3: ")


def test_the_failure_of_a_stopped_query_is_its_end() -> None:
    """Spark takes a failure after a stop for the stop if it finds this text, which is short."""
    text = text_of(RuntimeError(py4j_text(2_000)), stopping=True)
    found = _SPARKS.search(text)
    assert found is not None
    assert len(found[1]) < 100
    assert len(text) < 2_000
