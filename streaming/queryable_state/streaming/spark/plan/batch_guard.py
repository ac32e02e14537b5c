"""Function of `foreachBatch` whose errors reach Spark as short texts."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from queryable_state.streaming.functions import UserFunctionError
from queryable_state.streaming.runtime.user_code import described
from queryable_state.streaming.spark.queries.failure import PY4J_MODULE, to_be_carried, typed_error
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

# Spark recognizes the failure of a function in a stopped query by this text, with a regular
# expression that recurses for each character between "calling" and the name of the exception. The
# text of a real py4j error, with its two stack traces, overflows the stack of the query's thread.
_STOPPED: Final = (
    "py4j.protocol.Py4JJavaError: An error occurred while calling the function of a batch: "
    "java.lang.InterruptedException"
)


class _StoppedError(Exception):
    """The query was stopped while its function ran."""


class BatchGuard:
    """Runs the function of each batch, and shortens its errors.

    The text of an error from Spark has several hundred lines: it contains the traceback of the
    worker, of the driver and of the JVM, some of them several times.
    """

    def __init__(
        self,
        run: Callable[[DataFrame, int], None],
        is_stopping: Callable[[bytes], bool],
    ) -> None:
        """`is_stopping` is called with a query's id."""
        self._run = run
        self._is_stopping = is_stopping

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Runs the function.

        Raises the error of this package that made the function fail, in a worker or in the driver;
        `UserFunctionError` for any other error.
        """
        try:
            self._run(batch, batch_id)
        except Exception as error:  # noqa: BLE001 - a shorter error is raised
            query_id = query_id_of(batch)
            if query_id is not None and self._is_stopping(query_id):
                raise _StoppedError(_STOPPED) from None
            raise to_be_carried(_of_ours(error, batch_id)) from None


def _of_ours(error: Exception, batch_id: int) -> QueryableStateError:
    if isinstance(error, QueryableStateError):
        return error
    found = typed_error(str(error))
    if found is not None:
        return found
    text = described(error).replace(PY4J_MODULE, "")
    failure = UserFunctionError(f"the sinks failed in batch {batch_id}: {text}")
    failure.__cause__ = error
    return failure


def query_id_of(batch: DataFrame) -> bytes | None:
    """Id of the query that runs a batch; None if Spark does not tell."""
    found = batch.sparkSession.sparkContext.getLocalProperty("sql.streaming.queryId")
    return uuid.UUID(found).bytes if found else None
