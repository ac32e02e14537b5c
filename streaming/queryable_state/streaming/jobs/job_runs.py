"""The runs of one job in this driver: the first one, and those that follow a failure."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from queryable_state.streaming.config.restart_strategy import Failure

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql.streaming.query import StreamingQuery

    from queryable_state.streaming.config.restart_strategy import RestartDecision

_log = logging.getLogger("queryable_state.streaming")

_POLL_S = 0.05


class JobRuns:
    """One Spark query after another, all of one id, each from the checkpoint of the one before.

    `start` starts the first query, `start_again` each later one, `error_of` says what an ended one
    failed of (None: nothing). Where the strategy allows restarts a
    thread waits for the ends of the runs. Usable from every thread.
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
    ) -> None:
        self._label = label
        self._error_of = error_of
        self._decision = decision
        self._start_again = start_again
        self._is_over = is_over
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
    def restarts(self) -> int:
        """How often the job was started again."""
        with self._changed:
            return self._restarts

    @property
    def restarting(self) -> bool:
        """Whether a run has failed and another one is to follow."""
        with self._changed:
            return self._watched and not self._ended and (self._waiting or not self._is_active())

    @property
    def ended(self) -> bool:
        """Whether no run is under way and none will follow."""
        with self._changed:
            return self._ended if self._watched else not self._is_active()

    @property
    def error(self) -> Exception | None:
        """What the job failed of, once it has ended."""
        with self._changed:
            if self._watched:
                return self._error
            query = self._query
        return None if query.isActive else self._error_of(query)

    def wait_ended(self, timeout_s: float | None) -> bool:
        """Waits for the end; False: it has not come in time."""
        return self._wait(lambda: self.ended, timeout_s)

    def wait_next(self, query: StreamingQuery) -> bool:
        """Once a run has ended: whether another one follows, when it has begun."""
        if not self._watched:
            return False
        self._wait(lambda: self.ended or self.query is not query, None)
        return self.query is not query

    def cancel(self) -> None:
        """Stops the newest run; none follows. Returns when it has stopped."""
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
        """Until the job has ended; an end that nobody expected is one, too."""
        error: Exception | None = None
        try:
            error = self._run_all()
        except Exception as problem:  # noqa: BLE001 - told as what the job failed of
            _log.exception("job %s is not restarted any more", self._label)
            error = problem
        finally:
            with self._changed:
                self._error, self._ended = error, True
                self._changed.notify_all()

    def _run_all(self) -> Exception | None:
        """The runs, one by one; answers what the last one failed of."""
        error, progressed = self._outcome(self.query)
        while error is not None:
            delay_ms = self._delay_ms(error, progressed=progressed)
            if delay_ms is None:
                return error
            if not self._pause(delay_ms):
                return None
            error, progressed = self._restart(), False
            if error is None:
                error, progressed = self._outcome(self.query)
        return None

    def _outcome(self, query: StreamingQuery) -> tuple[Exception | None, bool]:
        """How a run ended, and whether it had committed a batch; returns when it has."""
        try:
            query.awaitTermination()
        except Exception as problem:  # noqa: BLE001 - the failure is asked for below
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
        """Waits before a restart; False: the job was cancelled."""
        with self._changed:
            self._waiting = True
            self._changed.wait_for(lambda: self._cancelled, delay_ms / 1000)
            return not (self._cancelled or self._is_over())

    def _restart(self) -> Exception | None:
        """Starts the next run; answers why it could not be."""
        try:
            query = self._start_again()
        except Exception as problem:  # noqa: BLE001 - decided on as any other failure
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
