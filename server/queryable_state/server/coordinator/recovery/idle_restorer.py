"""Restorer of stored state while no batch runs, so that queries need not wait for input."""

from __future__ import annotations

import logging
import math
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import backend_pb2, coordinator_pb2
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
    from queryable_state.server.coordinator.model.operators import Operator, OperatorLayout
    from queryable_state.server.coordinator.model.servers import Server
    from queryable_state.server.coordinator.model.state import CoordinatorState
    from queryable_state.server.coordinator.recovery.batch_commits import BatchCommits
    from queryable_state.server.coordinator.recovery.restore_plans import RestorePlans
    from queryable_state.server.coordinator.recovery.run_binder import RunBinder
    from queryable_state.server.coordinator.roots.job_roots import JobRoot, JobRoots
    from queryable_state.server.coordinator.servers.state_server_clients import StateServerClients

_log = logging.getLogger(__name__)


_RETRIES = (PlacementError, QueryTimeoutError, RetryLaterError)
_RETRY_S = 0.1
_PUBLISH_S = 3.0
# A restore that takes longer continues, and the next call waits for it again.
_OPEN_S = 2.0


@dataclass(kw_only=True)
class _IdleRun:
    """The subtasks of one run that must be open, and what is known of them."""

    query_id: bytes
    run_id: bytes
    config_id: str
    operators: Sequence[OperatorLayout]
    servers_asked_s: float = -math.inf
    """When Spark was last asked to start servers, in seconds of the monotonic clock."""
    confirmed: bool = False
    """Whether every owner has answered that its subtasks are open.

    The coordinator's own record is not enough: a server that did not get the answer to its
    `OpenSubtask` has no store, and the coordinator holds the subtask for open.
    """

    @property
    def uids(self) -> set[str]:
        """Uids of the run's operators."""
        return {operator.uid for operator in self.operators}


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

        True if the run continues from stored state, which `await_open` waits for.
        """
        info = self._engine.query(query_id)
        if info is None or not self._run_binder.is_durable(config_id, info):
            return False
        run = _IdleRun(
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

    def _keep_open(self, run: _IdleRun) -> None:
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

    def _look(self, run: _IdleRun) -> float | None:
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

    def _fail(self, run: _IdleRun, failure: QueryableStateError) -> None:
        """Stops a query that cannot continue from its stored state."""
        with self._state.transaction():
            job = self._state.jobs.find(run.query_id)
            if job is not None and job.run.run_id == run.run_id and job.run.refuse(failure):
                self._state.notify_waiters()
        try:
            self._engine.stop_query(run.query_id, failure)
        except QueryableStateError as problem:
            _log.error("query %s is not stopped: %s", run.query_id.hex(), problem)

    def _over(self, run: _IdleRun) -> None:
        with self._state.transaction():
            job = self._state.jobs.find(run.query_id)
            if job is not None and job.run.run_id == run.run_id and job.run.restoring:
                job.run.end_restore()
                self._state.notify_waiters()

    def _is_missing(self, run: _IdleRun) -> bool:
        """Whether a subtask of the run is closed, and no batch of the run is about to open it."""
        if not self._run_binder.is_bound(run.query_id, run.run_id):
            return True
        state = self._state
        with state.transaction():
            job = state.jobs.find(run.query_id)
            if job is not None and job.run.begun > state.commits.version(run.query_id):
                return False
            if not run.confirmed:
                return True
            for wanted in run.operators:
                operator = state.placement.operator(run.query_id, wanted.uid)
                if operator is None or operator.parallelism != wanted.parallelism:
                    return True
                if any(not self._is_open(operator, index) for index in range(wanted.parallelism)):
                    return True
        return False

    def _open(self, run: _IdleRun, info: QueryInfo) -> None:
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
            self._run_binder.bind(first, info)
        root = self._roots.of(run.query_id)
        if root is None:
            return
        if not self._commits.settle(run.query_id, version, _PUBLISH_S):
            raise RetryLaterError(f"the commit of batch {version} is not published yet")
        for operator in run.operators:
            self._plans.states(root, operator.uid)
        executors = self._engine.live_executors()
        self._ask_for_servers(run, executors)
        requests = self._requests(run, info, root, version, executors)
        run.confirmed = False
        failures = self._clients.open_subtasks(requests, _OPEN_S)
        if failures:
            raise failures[0]
        run.confirmed = bool(requests)

    def _requests(
        self, run: _IdleRun, info: QueryInfo, root: JobRoot, version: int, executors: int
    ) -> dict[str, backend_pb2.OpenSubtasksRequest]:
        """The subtasks each server has to open, by its address; assigns those without an owner.

        Until the owners have confirmed the run, its open subtasks are included: an owner leaves
        a store that is open as it is. Empty if a batch of the run has begun.
        """
        state, query_id = self._state, run.query_id
        requests: dict[str, backend_pb2.OpenSubtasksRequest] = {}
        with state.transaction() as now:
            job = state.enter(query_id, info)
            if job.run.run_id != run.run_id:
                raise SupersededError(f"job {job.label} has a newer run")
            if job.run.begun > version:
                return {}
            state.contact(job, version + 1)
            if job.run.first_batch is None:
                # Operators that only an earlier run had are not restored.
                state.placement.drop_query(query_id, but=run.uids)
                state.states.serve(query_id, run.uids)
            committed = state.commits.published_version(query_id)
            if committed is None or committed.version != version:
                raise RetryLaterError(f"job {job.label} is committing")
            for wanted in run.operators:
                operator = state.placement.declare(
                    query_id,
                    wanted.uid,
                    wanted.parallelism,
                    wanted.max_parallelism,
                    run.run_id,
                )
                for index in range(operator.parallelism):
                    if run.confirmed and self._is_open(operator, index):
                        continue
                    server = self._owner(operator, index, executors, now)
                    request = requests.setdefault(
                        server.backend_address,
                        backend_pb2.OpenSubtasksRequest(
                            query_id=query_id,
                            batch_id=version + 1,
                            commit_time_ms=committed.commit_time_ms,
                            watermark_ms=committed.watermark_ms,
                            storage=root.job_storage(),
                            timeline=root.timeline,
                        ),
                    )
                    request.subtasks.add(
                        query_id=query_id,
                        operator_uid=operator.uid,
                        index=index,
                        parallelism=operator.parallelism,
                        max_parallelism=operator.max_parallelism,
                    )
        return requests

    def _is_open(self, operator: Operator, index: int) -> bool:
        owned = operator.subtasks.get(index)
        opened = owned is not None and owned.opened
        return opened and self._state.placement.owner(operator, index) is not None

    def _owner(self, operator: Operator, index: int, executors: int, now_ms: int) -> Server:
        """The owner of a subtask; a subtask without one goes to the least loaded server."""
        state = self._state
        owner = state.placement.owner(operator, index)
        if owner is not None:
            return owner
        holding = state.servers.holding(now_ms)
        if not holding:
            raise RetryLaterError("no state server holds a lease")
        requester = min(holding, key=lambda server: len(operator.owned_by(server.server_id)))
        return state.placement.assign(operator, index, requester, executors, now_ms)

    def _ask_for_servers(self, run: _IdleRun, executors: int) -> None:
        """Starts servers on executors without one: no task may run there that would do so."""
        state = self._state
        with state.transaction() as now:
            holding = len(state.servers.holding(now))
        now_s = time.monotonic()
        if holding < executors and now_s >= run.servers_asked_s + self._look_s:
            run.servers_asked_s = now_s
            self._engine.start_servers()
