"""Elements of a running job as an iterator in the driver."""

from __future__ import annotations

import queue
from typing import TYPE_CHECKING, Any, Final, Self

from queryable_state.streaming.spark.plan.elements_of import elements_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from queryable_state.streaming.graph.elements import Columns
    from queryable_state.streaming.job_client import JobClient

_POLL_S: Final = 0.1
_MOST_BATCHES: Final = 16
"""Batches that the job may be ahead of the reader."""


class CollectSink:
    """A sink that passes elements to a `CloseableIterator`; each batch once, also if it is
    replayed."""

    def __init__(self, columns: Columns) -> None:
        self._columns = columns
        self._newest = -1
        self._closed = False
        self.batches: queue.Queue[list[Any]] = queue.Queue(_MOST_BATCHES)

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        """Passes one batch; waits while the reader is too far behind."""
        elements = elements_of(batch, self._columns)
        while not self._closed and batch_id > self._newest:
            try:
                self.batches.put(elements, timeout=_POLL_S)
            except queue.Full:
                continue
            self._newest = batch_id

    def close(self) -> None:
        """Drops all further batches."""
        self._closed = True


class CloseableIterator:
    """The elements of a job that `execute_and_collect` started.

    The iterator ends when the job does, and raises its failure. `close`, or the end of a `with`
    block, cancels the job. If the job has no name of the user, nobody can start it again: at its
    end all that is stored of it is removed, unless it has failed.
    """

    def __init__(
        self, sink: CollectSink, start: Callable[[], JobClient], *, is_named: bool
    ) -> None:
        self._sink = sink
        self._discards = not is_named
        self._elements: list[Any] = []
        self._closed = False
        self.job = start()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        """The next element; waits for it. Raises StopIteration at the end."""
        while not self._elements:
            if self._closed:
                raise StopIteration
            # Asked before the queue, so that a batch of an ended job is not missed.
            try:
                ended = self.job.await_termination(0)
            except Exception:
                self._discard()
                raise
            try:
                self._elements = self._sink.batches.get(timeout=0 if ended else _POLL_S)[::-1]
            except queue.Empty:
                if ended:
                    self._discard()
                    raise StopIteration from None
        return self._elements.pop()

    def next(self) -> Any:
        """The next element; raises StopIteration at the end."""
        return next(self)

    def close(self) -> None:
        """Cancels the job if it runs. Idempotent."""
        if not self._closed:
            self._closed = True
            self._elements = []
            self._sink.close()
            self.job.cancel()
            self._discard()

    def _discard(self) -> None:
        if self._discards:
            self._discards = False
            self.job._discard()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
