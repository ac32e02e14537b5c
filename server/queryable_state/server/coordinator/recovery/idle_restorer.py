"""Restorer of stored state while no batch runs, so that queries need not wait for input."""

from __future__ import annotations

import logging
import threading
import time
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.server.coordinator.recovery.idle_placement import IdlePlacement
from queryable_state.server.coordinator.recovery.idle_run import IdleRun
from queryable_state.wire.errors import (
    PlacementError,
    QueryableStateError,
    QueryTimeoutError,
    RetryLaterError,
    SupersededError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.coordinator.model.engine import Engine, QueryInfo
    from queryable_state.server.coordinator.model.operators import OperatorLayout
    from queryable_state.server.coordinator.model.state import CoordinatorState
    from queryable_state.server.coordinator.recovery.batch_commits import BatchCommits
    from queryable_state.server.coordinator.recovery.restore_plans import RestorePlans
    from queryable_state.server.coordinator.recovery.run_binder import RunBinder
    from queryable_state.server.coordinator.roots.job_roots import JobRoots
    from queryable_state.server.coordinator.servers.state_server_clients import StateServerClients

_log = logging.getLogger(__name__)

_RETRIES = (PlacementError, QueryTimeoutError, RetryLaterError)
_RETRY_S = 0.1
_PUBLISH_S = 3.0
# A restore that takes longer continues, and the next call waits for it again.
_OPEN_S = 2.0


class IdleRestorer:
    """Opens the state of durable jobs when they start, and after the loss of a server.

    Stores are opened as of the newest committed batch; the next batch finds them open. One thread
    per run, until the run ends or a newer one starts. A run that cannot continue from its stored
    state is stopped with the cause.
    """

    def __init__(
        self,
        engine: Engine,
        state: CoordinatorState,
        roots: JobRoots,
        run_binder: RunBinder,
        plans: RestorePlans,
        commits: BatchCommits,
        clients: StateServerClients,
        *,
        look_s: float,
    ) -> None:
        """`look_s`: interval of the checks, in which a batch may open a lost subtask itself."""
        self._engine = engine
        self._state = state
        self._roots = roots
        self._run_binder = run_binder
        self._plans = plans
        self._placement = IdlePlacement(state)
        self._commits = commits
        self._clients = clients
        self._look_s = look_s
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._threads: list[threading.Thread] = []

    def keep_open(
        self, query_id: bytes, config_id: str, operators: Sequence[OperatorLayout]
    ) -> bool:
        """Starts to keep the operators of a query's newest run open; returns at once.

        True if the run continues from stored state.
        """
        info = self._engine.query(query_id)
        if info is None or not self._run_binder.is_durable(config_id, info):
            return False
        run = IdleRun(
            query_id=query_id,
            run_id=info.run_id,
            config_id=config_id,
            operators=tuple(operators),
        )
        thread = threading.Thread(
            target=self._keep_open,
            args=(run,),
            name=f"queryable-state-reopening-{info.name}",
            daemon=True,
        )
        stored = self._engine.newest_commit(query_id) >= 0
        with self._lock:
            if self._stopping.is_set():
                return False
            with self._state.transaction():
                job = self._state.enter(query_id, info)
                if job.run.run_id == info.run_id and stored:
                    job.run.start_restore()
            self._threads = [known for known in self._threads if known.is_alive()]
            self._threads.append(thread)
            thread.start()
        return stored

    def await_open(self, query_id: bytes, timeout_s: float) -> bool:
        """Waits until stored state is open or left to the next batch; False after the timeout."""
        state = self._state

        def is_over() -> bool:
            job = state.jobs.find(query_id)
            return job is None or not job.run.restoring

        return state.wait_for(is_over, timeout_s)

    def close(self) -> None:
        """Ends all threads; may be repeated."""
        with self._lock:
            self._stopping.set()
            with self._state.transaction():
                self._state.notify_waiters()
        for thread in self._threads:
            thread.join()

    def _keep_open(self, run: IdleRun) -> None:
        pause_s: float | None = 0.0
        departures = 0
        while pause_s is not None:
            departures = self._wait(pause_s, departures)
            if self._stopping.is_set():
                break
            pause_s = self._look(run)
        self._over(run)

    def _wait(self, pause_s: float, departures: int) -> int:
        """Waits until the next check, or until a server deregisters."""
        state = self._state
        with state.transaction():
            state.wait_for(
                lambda: self._stopping.is_set() or state.departures != departures, pause_s
            )
            return state.departures

    def _look(self, run: IdleRun) -> float | None:
        """Opens closed subtasks; returns the seconds until the next check. None: no more checks."""
        try:
            info = self._engine.query(run.query_id)
            if info is None or not info.active or info.run_id != run.run_id:
                return None
            if self._is_missing(run):
                self._open(run, info)
        except SupersededError as refusal:
            # The next batch of this run, or another run, opens it.
            _log.info("query %s is not opened now: %s", run.query_id.hex(), refusal)
        except _RETRIES as failure:
            _log.debug("query %s is not open yet: %s", run.query_id.hex(), failure)
            return max(failure.retry_after_ms / 1000, _RETRY_S)
        except QueryableStateError as failure:
            self._fail(run, failure)
            return None
        except Exception:  # noqa: BLE001 - nobody waits for the outcome of this thread
            _log.exception("what query %s has stored is not opened", run.query_id.hex())
            return None
        self._over(run)
        return self._look_s

    def _fail(self, run: IdleRun, failure: QueryableStateError) -> None:
        """Stops a query that cannot continue from its stored state."""
        with self._state.transaction():
            job = self._state.jobs.find(run.query_id)
            if job is not None and job.run.run_id == run.run_id and job.run.refuse(failure):
                self._state.notify_waiters()
        try:
            self._engine.stop_query(run.query_id, failure)
        except QueryableStateError as problem:
            _log.error("query %s is not stopped: %s", run.query_id.hex(), problem)

    def _over(self, run: IdleRun) -> None:
        with self._state.transaction():
            job = self._state.jobs.find(run.query_id)
            if job is not None and job.run.run_id == run.run_id and job.run.restoring:
                job.run.end_restore()
                self._state.notify_waiters()

    def _is_missing(self, run: IdleRun) -> bool:
        """Whether a subtask of the run is closed, and no batch of the run is about to open it."""
        if not self._run_binder.is_bound(run.query_id, run.run_id):
            return True
        return self._placement.is_missing(run)

    def _open(self, run: IdleRun, info: QueryInfo) -> None:
        version = self._engine.newest_commit(run.query_id)
        if version < 0:
            return
        if not self._run_binder.is_bound(run.query_id, run.run_id):
            first = coordinator_pb2.BeginBatchRequest(
                query_id=run.query_id,
                run_id=run.run_id,
                batch_id=version + 1,
                config_id=run.config_id,
            )
            self._commits.bind(first, info, lambda: self._check_newest(run))
        root = self._roots.of(run.query_id)
        if root is None:
            return
        if not self._commits.settle(run.query_id, version, _PUBLISH_S):
            raise RetryLaterError(f"the commit of batch {version} is not published yet")
        for operator in run.operators:
            self._plans.states(root, operator.uid)
        executors = self._engine.live_executors()
        self._ask_for_servers(run, executors)
        requests = self._placement.requests(run, info, root, version, executors)
        run.confirmed = False
        failures = self._clients.open_subtasks(requests, _OPEN_S)
        if failures:
            raise failures[0]
        run.confirmed = bool(requests)

    def _ask_for_servers(self, run: IdleRun, executors: int) -> None:
        """Starts servers on executors without one: no task may run there that would do so."""
        state = self._state
        with state.transaction() as now:
            holding = len(state.servers.holding(now))
        now_s = time.monotonic()
        if holding < executors and now_s >= run.servers_asked_s + self._look_s:
            run.servers_asked_s = now_s
            self._engine.start_servers()

    def _check_newest(self, run: IdleRun) -> None:
        info = self._engine.query(run.query_id)
        if info is None or info.run_id != run.run_id:
            raise SupersededError(f"query {run.query_id.hex()} has a newer run")
