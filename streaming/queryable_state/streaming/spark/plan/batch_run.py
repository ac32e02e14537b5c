"""The query of a graph: its operators in the plan, or run by a function for each batch."""

from __future__ import annotations

import logging
import uuid
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark import inheritable_thread_target
from pyspark.sql import functions as F

from queryable_state.streaming.functions import UserFunctionError
from queryable_state.streaming.runtime.user_code import described
from queryable_state.streaming.spark.plan.columns import column
from queryable_state.streaming.spark.plan.frames import Frames
from queryable_state.streaming.spark.queries.failure import PY4J_MODULE, to_be_carried, typed_error
from queryable_state.wire.errors import JobError, QueryableStateError, Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.readwriter import DataStreamWriter

    from queryable_state.streaming.graph.job_graph import JobGraph
    from queryable_state.streaming.graph.nodes import StreamNode
    from queryable_state.streaming.spark.plan.stage_compiler import StageCompiler


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


_log = logging.getLogger("queryable_state.streaming")


class InitialReads:
    """Decides which operators of a graph read their initial state in a batch.

    An operator reads it until a batch is committed in which it ran. The coordinator knows these
    from the files of the batches before, so a replay of the batch decides alike.
    """

    def __init__(self, compiler: StageCompiler, graph: JobGraph) -> None:
        self._compiler = compiler
        self._graph = graph
        self._names = {
            node.uid: node.name
            for node in graph.operators
            if any(each.is_initial for each in node.inputs)
        }
        self._continued: set[str] = set()
        """Operators known to have state of a committed batch, which they do not lose."""

    def starting(self, batch_id: int, query_id_of: Callable[[], bytes | None]) -> AbstractSet[str]:
        """The uids of the operators that read their initial state in a batch.

        `query_id_of` asks Spark for the query id; it is called only if the answer is open.
        """
        starting = self._names.keys() - self._continued
        if not starting or batch_id == 0:
            return starting
        query_id = query_id_of()
        if query_id is None:
            raise JobError(
                f"batch {batch_id} of a job with initial_state has no query id "
                "(sql.streaming.queryId), so its operators cannot be told from new ones",
                reason=Reason.MISSING_BATCH_ID,
            )
        try:
            continued = self._compiler.continued(self._graph, query_id, batch_id)
        except QueryableStateError as error:
            raise to_be_carried(error) from None
        self._continued |= starting & continued
        starting -= self._continued
        for uid in sorted(starting):
            _log.info(
                "operator %r has no state from before batch %d, in which it reads its initial "
                "state",
                self._names[uid],
                batch_id,
            )
        return starting


_SOURCE = "source"


class BatchRun:
    """The query that runs all ends of a graph in each batch."""

    def __init__(self, compiler: StageCompiler, graph: JobGraph) -> None:
        self._compiler = compiler
        self._graph = graph
        self._initial = InitialReads(compiler, graph)

    def in_plan(self) -> DataStreamWriter:
        """A query with all operators in its plan, for a graph that one action runs."""
        frames = Frames(self._compiler, self._graph, marked=self._graph.needs_clock)
        if not self._graph.sinks:
            (whole,) = frames.unread_stages()
            return whole.writeStream.format("noop")
        (sink,) = self._graph.sinks
        write = sink.write

        def run_sink(batch: DataFrame, batch_id: int) -> None:
            write(batch, batch_id)
            if not self._is_sealed(batch, batch_id):
                _run_whole(batch)

        stream = frames.for_any_plan(sink.upstream)
        return stream.writeStream.foreachBatch(self._guarded(run_sink))

    def in_batches(self) -> DataStreamWriter:
        """A query that reads the sources, and applies the operators to each batch."""
        graph, supplied = self._graph, self._graph.supplied
        in_plan = Frames(self._compiler, graph)
        plan = [in_plan.in_plan(node) for node in supplied]

        def run_batch(batch: DataFrame, batch_id: int) -> None:
            rows = _split(batch, supplied, plan)
            starting = self._initial.starting(batch_id, lambda: query_id_of(batch))
            frames = Frames(self._compiler, graph, rows, starting=starting)
            try:
                _run_all(frames.unread_stages(), side_by_side=not frames.has_persisted)
                for sink in graph.sinks:
                    sink.write(frames.for_any_plan(sink.upstream), batch_id)
                if graph.sinks and not self._is_sealed(batch, batch_id):
                    _run_all(frames.every_stage(), side_by_side=False)
            finally:
                frames.release()

        whole = _joined(plan)
        if graph.needs_clock:
            whole = self._compiler.with_marker(whole, is_bounded=graph.is_bounded)
        return whole.writeStream.foreachBatch(self._guarded(run_batch))

    def _guarded(self, run: Callable[[DataFrame, int], None]) -> BatchGuard:
        return BatchGuard(run, self._compiler.is_stopping)

    def _is_sealed(self, batch: DataFrame, batch_id: int) -> bool:
        """True if the sinks' functions have run every operator of the job.

        A function may run no action, or one from whose plan Spark removes operators.
        """
        query_id = query_id_of(batch)
        return query_id is not None and self._compiler.is_sealed(self._graph, query_id, batch_id)


def _run_whole(frame: DataFrame) -> None:
    """Runs all tasks of a DataFrame and discards the rows."""
    frame.write.format("noop").mode("overwrite").save()


def _run_all(frames: Sequence[DataFrame], *, side_by_side: bool) -> None:
    """Runs DataFrames in threads, or one after another."""
    if len(frames) < 2 or not side_by_side:
        for frame in frames:
            _run_whole(frame)
        return
    session = frames[0].sparkSession
    with ThreadPoolExecutor(len(frames), thread_name_prefix="queryable-state-branch") as pool:
        # Spark's tasks read the batch from the thread's local properties.
        running = [
            pool.submit(inheritable_thread_target(session)(_run_whole), frame) for frame in frames
        ]
    for each in running:
        each.result()


def _joined(frames: Sequence[DataFrame]) -> DataFrame:
    """One DataFrame of all: each row has the index of its DataFrame, and the columns of this one in
    a struct of its own."""
    if len(frames) == 1:
        return frames[0]
    joined = []
    for number, frame in enumerate(frames):
        structs = [
            F.struct(*map(column, frame.columns))
            if place == number
            else F.lit(None).cast(other.schema)
            for place, other in enumerate(frames)
        ]
        joined.append(
            frame.select(
                F.lit(number).alias(_SOURCE),
                *(each.alias(_struct(place)) for place, each in enumerate(structs)),
            )
        )
    return reduce(lambda one, other: one.union(other), joined)


def _split(
    batch: DataFrame, nodes: Sequence[StreamNode], frames: Sequence[DataFrame]
) -> dict[int, DataFrame]:
    """The rows of each node in a batch of `_joined`, by the `id` of the node."""
    if len(nodes) == 1:
        return {id(nodes[0]): batch}
    return {
        id(node): batch.where(F.col(_SOURCE) == number).select(
            *(column(_struct(number)).getField(name).alias(name) for name in frame.columns)
        )
        for number, (node, frame) in enumerate(zip(nodes, frames, strict=True))
    }


def _struct(number: int) -> str:
    return f"source_{number}"
