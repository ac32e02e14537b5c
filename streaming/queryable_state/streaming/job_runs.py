"""Runs of one job in this driver: the first run and its restarts."""

from __future__ import annotations

import logging
import threading
import time
import uuid
from typing import TYPE_CHECKING, Protocol

from queryable_state.streaming.config.restart_strategy import Failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.query import StreamingQuery

    from queryable_state.streaming.config.restart_strategy import RestartDecision

_log = logging.getLogger("queryable_state.streaming")

_POLL_S = 0.05


class RestartObserver(Protocol):
    """Receiver of the plans of a restart strategy."""

    def restarts_watched(self, query_id: bytes, *, is_watched: bool) -> None:
        """The strategy decides on the next failure of the job; False: no more."""

    def restart_pending(self, query_id: bytes, at_ms: int) -> None:
        """The failed job starts again then, milliseconds since the epoch; 0: not any more."""


class JobRuns:
    """A sequence of Spark queries with one id; each continues from the checkpoint of the former.

    `start` starts the first query and `start_again` each restart. `error_of` returns the failure
    of an ended query, None if it did not fail. If the strategy allows restarts, a daemon thread
    waits for the end of each run. Usable from every thread.
    """

    def __init__(
        self,
        label: str,
        start: Callable[[], StreamingQuery],
        error_of: Callable[[StreamingQuery], Exception | None],
        decision: RestartDecision,
        *,
        start_again: Callable[[], StreamingQuery],
        is_over: Callable[[], bool] = lambda: False,
        observer: RestartObserver | None = None,
    ) -> None:
        self._label = label
        self._error_of = error_of
        self._decision = decision
        self._start_again = start_again
        self._is_over = is_over
        self._observer = observer
        self._changed = threading.Condition()
        self._cancelled = False
        self._waiting = False
        self._restarts = 0
        self._ended = False
        self._error: Exception | None = None
        self._query = start()
        self._watched = decision.may_restart
        if self._watched:
            threading.Thread(
                target=self._watch, name=f"queryable-state-restarts-{label}", daemon=True
            ).start()

    @property
    def query(self) -> StreamingQuery:
        """The newest run."""
        with self._changed:
            return self._query

    @property
    def query_id(self) -> bytes:
        """Id of the query, the same in all runs: 16 bytes."""
        return uuid.UUID(str(self.query.id)).bytes

    @property
    def restarts(self) -> int:
        """Number of restarts."""
        with self._changed:
            return self._restarts

    @property
    def restarting(self) -> bool:
        """True if a run has failed and a restart is pending."""
        with self._changed:
            return self._watched and not self._ended and (self._waiting or not self._is_active())

    @property
    def ended(self) -> bool:
        """True if no run is active and none will follow."""
        with self._changed:
            return self._ended if self._watched else not self._is_active()

    @property
    def error(self) -> Exception | None:
        """The failure of the ended job; None if it has not ended or did not fail."""
        with self._changed:
            if self._watched:
                return self._error
            query = self._query
        return None if query.isActive else self._error_of(query)

    def wait_ended(self, timeout_s: float | None) -> bool:
        """Waits for the end of the job; False if `timeout_s` passed before."""
        return self._wait(lambda: self.ended, timeout_s)

    def wait_next(self, query: StreamingQuery) -> bool:
        """Waits, after the end of a run, for the next run or the end of the job; True if there is
        a next run."""
        if not self._watched:
            return False
        self._wait(lambda: self.ended or self.query is not query, None)
        return self.query is not query

    def cancel(self) -> None:
        """Stops the newest run, waits for its end, and prevents restarts."""
        with self._changed:
            self._cancelled = True
            query = self._query
            self._changed.notify_all()
        query.stop()
        if self._watched:
            self._wait(lambda: self.ended, None)

    def _is_active(self) -> bool:
        return bool(self._query.isActive)

    def _wait(self, condition: Callable[[], bool], timeout_s: float | None) -> bool:
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while not condition():
            if deadline is not None and time.monotonic() >= deadline:
                return False
            time.sleep(_POLL_S)
        return True

    def _watch(self) -> None:
        """Runs the job to its end. A defect in the restart loop ends the job with that error."""
        error: Exception | None = None
        try:
            self._tell_watched(is_watched=True)
            error = self._run_all()
        except Exception as problem:  # noqa: BLE001 - becomes the error of the job
            _log.exception("job %s is not restarted any more", self._label)
            error = problem
        finally:
            with self._changed:
                self._error, self._ended = error, True
                self._changed.notify_all()
            self._tell_watched(is_watched=False)

    def _tell_watched(self, *, is_watched: bool) -> None:
        if self._observer is not None:
            self._observer.restarts_watched(self.query_id, is_watched=is_watched)

    def _tell_pending(self, at_ms: int) -> None:
        if self._observer is not None:
            self._observer.restart_pending(self.query_id, at_ms)

    def _run_all(self) -> Exception | None:
        """Waits for each run and restarts it; returns the error of the last run."""
        error, progressed = self._outcome(self.query)
        while error is not None:
            delay_ms = self._delay_ms(error, progressed=progressed)
            if delay_ms is None:
                return error
            self._tell_pending(time.time_ns() // 1_000_000 + delay_ms)
            try:
                if not self._pause(delay_ms):
                    return None
                error, progressed = self._restart(), False
            finally:
                self._tell_pending(0)
            if error is None:
                error, progressed = self._outcome(self.query)
        return None

    def _outcome(self, query: StreamingQuery) -> tuple[Exception | None, bool]:
        """Waits for the end of a run; returns its error and whether it committed a batch."""
        try:
            query.awaitTermination()
        except Exception as problem:  # noqa: BLE001 - `error_of` returns the failure
            _log.debug("job %s: %r", self._label, problem)
        if self._cancelled or self._is_over():
            return None, False
        error = self._error_of(query)
        return error, error is not None and query.lastProgress is not None

    def _delay_ms(self, error: Exception, *, progressed: bool) -> int | None:
        failure = Failure(
            error=error, at_ms=time.monotonic_ns() // 1_000_000, progressed=progressed
        )
        delay_ms = self._decision.delay_ms(failure)
        if delay_ms is None:
            _log.error("job %s failed and is not restarted: %s", self._label, error)
        else:
            _log.warning(
                "job %s failed and is restarted in %d ms: %s", self._label, delay_ms, error
            )
        return delay_ms

    def _pause(self, delay_ms: int) -> bool:
        """Waits before a restart; False if the job was cancelled."""
        with self._changed:
            self._waiting = True
            self._changed.wait_for(lambda: self._cancelled, delay_ms / 1000)
            return not (self._cancelled or self._is_over())

    def _restart(self) -> Exception | None:
        """Starts the next run; returns the error if it cannot be started."""
        try:
            query = self._start_again()
        except Exception as problem:  # noqa: BLE001 - the restart strategy decides
            return problem
        with self._changed:
            self._query = query
            self._restarts += 1
            self._waiting = False
            cancelled = self._cancelled
            self._changed.notify_all()
        if cancelled:
            query.stop()
        return None
