"""Fencing: the end of runs whose jobs another driver has taken over."""

from __future__ import annotations

import logging
import threading
import weakref
from typing import TYPE_CHECKING

from queryable_state.wire.errors import QueryableStateError, Reason, SupersededError

if TYPE_CHECKING:
    from queryable_state.server.coordinator.model.engine import Engine
    from queryable_state.server.coordinator.model.state import CoordinatorState
    from queryable_state.server.coordinator.roots.job_roots import JobRoot, JobRoots
    from queryable_state.server.coordinator.servers.state_server_clients import StateServerClients

_log = logging.getLogger(__name__)

_RETRY_S = 0.1


class Fencing:
    """Checks roots for epochs newer than those of this driver's runs. Thread-safe.

    Checks before each batch, before each manifest, and on a thread of its own once per heartbeat
    interval. A run whose root has a newer epoch of another driver is fenced: servers drop its
    state, lookups and tasks are refused, its query is stopped, and no file is removed. Its earlier
    seals are harmless; docs/reliability.md explains why.
    """

    def __init__(
        self,
        engine: Engine,
        state: CoordinatorState,
        roots: JobRoots,
        clients: StateServerClients,
        *,
        look_s: float,
    ) -> None:
        """`look_s`: the heartbeat interval."""
        self._engine = engine
        self._state = state
        self._roots = roots
        self._clients = clients
        self._look_s = look_s
        # By run: a query may take long to stop, and is stopped only once.
        self._stopped: weakref.WeakSet[JobRoot] = weakref.WeakSet()
        self._stopping = threading.Event()
        self._thread = threading.Thread(
            target=self._run, name="queryable-state-fencing", daemon=True
        )

    def start(self) -> None:
        """Starts the thread."""
        self._thread.start()

    def close(self) -> None:
        """Ends the thread; may be repeated."""
        self._stopping.set()
        self._state.stalled.set()
        if self._thread.is_alive():
            self._thread.join()

    def check_batch(self, query_id: bytes, batch_id: int) -> None:
        """Same as `check`, but once per batch, however many servers begin it. I/O."""
        root = self._roots.of(query_id)
        if root is None:
            return
        with root.checking:
            if root.checked_batch != batch_id:
                self.check(root)
                root.checked_batch = batch_id

    def check_query(self, query_id: bytes) -> None:
        """Same as `check` for the root of a query's newest run, if it has one. I/O."""
        root = self._roots.of(query_id)
        if root is not None:
            self.check(root)

    def check(self, root: JobRoot) -> None:
        """Fences the run and raises SupersededError (FENCED) if another driver has its job.

        I/O.
        """
        if root.root.has_newer_epoch(root.epoch):
            self._fence(root)

    def _fence(self, root: JobRoot) -> None:
        """Fences the run of a root with a newer epoch, and raises SupersededError (FENCED).

        Does nothing if the epoch may be that of a newer run in this driver.
        """
        info = self._engine.query(root.query_id)
        if info is not None and info.run_id != root.run_id:
            return
        state = self._state
        with state.transaction():
            job = state.jobs.find(root.query_id)
            if job is None or job.run.run_id != root.run_id:
                return
            error = SupersededError(
                f"another driver has taken over job {job.label}: epoch {root.epoch + 1} is taken "
                f"in {root.uri}, and this run has epoch {root.epoch}. This driver answers and "
                "seals nothing of the job any more, and removes nothing: query it at the other "
                "driver; if the job was started twice by mistake, end the other one and start "
                "this one again",
                reason=Reason.FENCED,
            )
            is_first = job.run.fence(error.message)
            addresses = state.revoke(job)
        if is_first:
            _log.error("%s: %s", error.reason_name, error)
        try:
            if info is not None and info.active and root not in self._stopped:
                self._engine.stop_query(root.query_id, error)
                self._stopped.add(root)
        finally:
            # A server that misses this call drops the stores with its next lease.
            self._clients.drop_query(root.query_id, addresses.values())
        raise error

    def _run(self) -> None:
        stalled = self._state.stalled
        while True:
            with self._state.transaction():
                stalls = self._state.stalls
                stalled.clear()
            if self._stopping.is_set():
                return
            outcomes = [self._look(root) for root in self._roots.all()]
            done = all(outcomes)
            if done:
                with self._state.transaction():
                    self._state.checked_stalls = stalls
            stalled.wait(self._look_s if done else _RETRY_S)

    def _look(self, root: JobRoot) -> bool:
        """Checks one root; False if it has a newer epoch and its run is not fenced yet."""
        newer = False
        try:
            newer = root.root.has_newer_epoch(root.epoch)
            if newer:
                self._fence(root)
        except SupersededError:
            # Logged already, by the first check that found it.
            return True
        except QueryableStateError as failure:
            what = "its run is not stopped yet" if newer else "epochs cannot be read now"
            _log.info("%s: %s: %s", root.uri, what, failure)
            return not newer
        except Exception:  # noqa: BLE001 - the other jobs must still be checked
            _log.exception("the epochs in %s could not be checked", root.uri)
        return True
