"""Publication of commits: checks each committed batch and publishes it to the state servers.

Spark can commit a batch that an operator missed: a `foreachBatch` function ran no action, or
the optimizer removed the operator from the plan. No state then has the records of the batch, so
the batch is refused: the query is stopped, and the engine's commit is withdrawn.
"""

from __future__ import annotations

import logging
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

from queryable_state.server.coordinator.batches.manifests import (
    list_committed,
    uncovered_key_groups,
)
from queryable_state.wire.calls.retrying import RetryPolicy, retrying_blocking
from queryable_state.wire.errors import (
    CheckpointError,
    JobError,
    QueryableStateError,
    Reason,
    RetryLaterError,
    SupersededError,
)
from queryable_state.wire.keys.key_groups import subtask_of
from queryable_state.wire.next_step import NextStep

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from queryable_state.internal.v1 import backend_pb2
    from queryable_state.internal.v1.checkpoint_pb2 import ChangelogFile
    from queryable_state.server.coordinator.batches.batches import BatchAnomaly, Batches
    from queryable_state.server.coordinator.batches.manifests import Manifests
    from queryable_state.server.coordinator.batches.pending_timers import PendingTimers
    from queryable_state.server.coordinator.batches.run_operators import (
        IncompleteBatchError,
        LostBatchError,
        MissedOperator,
        RunOperators,
    )
    from queryable_state.server.coordinator.model.commits import CommitRound
    from queryable_state.server.coordinator.model.engine import Engine
    from queryable_state.server.coordinator.model.operators import OperatorLayout
    from queryable_state.server.coordinator.roots.fencing import Fencing
    from queryable_state.server.coordinator.roots.job_roots import JobRoots
    from queryable_state.server.coordinator.servers.state_server_clients import StateServerClients
    from queryable_state.server.coordinator.status.job_facts import FactTable

_log = logging.getLogger(__name__)

_THREADS = 8
_POLL_S = 0.05
_END_S = 120.0
_ROOT_RETRIES = RetryPolicy(
    # Any problem of the root may be repaired; only a newer run ends this one.
    steps=frozenset(NextStep) - {NextStep.STOP},
    first_delay_s=0.1,
    longest_delay_s=2.0,
)


class CommitPublisher:
    """Publishes commits on threads of its own, one round at a time for each query."""

    def __init__(
        self,
        batches: Batches,
        operators: RunOperators,
        timers: PendingTimers,
        manifests: Manifests,
        clients: StateServerClients,
        engine: Engine,
        roots: JobRoots,
        fencing: Fencing,
        published: threading.Event,
        facts: FactTable,
        *,
        strict: bool,
        strict_determinism: bool,
        manifest_timeout_s: float,
    ) -> None:
        self._batches = batches
        self._operators = operators
        self._timers = timers
        self._manifests = manifests
        self._manifest_timeout_s = manifest_timeout_s
        self._stopping = threading.Event()
        self._clients = clients
        self._engine = engine
        self._roots = roots
        self._fencing = fencing
        # Set after each round.
        self._published = published
        self._facts = facts
        self._strict = strict
        self._strict_determinism = strict_determinism
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="queryable-state-commit")
        self._lock = threading.Lock()
        self._closed = False

    def committed(self, query_id: bytes, batch_id: int) -> None:
        """Records that Spark has committed all batches up to this one, and publishes them."""
        self._batches.commit(query_id, batch_id)
        self.announce(query_id)

    def announce(self, query_id: bytes) -> None:
        """Starts a due publication and returns at once; does nothing once closed."""
        with self._lock:
            if not self._closed and not self._batches.is_published(query_id):
                self._threads.submit(self._publish, query_id)

    def sealed(self, query_id: bytes, batch_id: int) -> dict[str, list[backend_pb2.SealedSubtask]]:
        """The seals of uncommitted batches up to a batch, by server that answers."""
        return self._clients.sealed(query_id, batch_id, self._batches.holders(query_id))

    def missed(self, query_id: bytes, run_id: bytes, error: IncompleteBatchError) -> None:
        """Refuses a batch that an operator missed; only logs it unless `strict`."""
        if self._strict:
            self.refuse(query_id, run_id, error)
        else:
            _log.error("%s: %s", error.reason_name, error)
            self._batches.count_incomplete(query_id)

    def refuse(
        self, query_id: bytes, run_id: bytes, error: IncompleteBatchError | LostBatchError
    ) -> None:
        """Refuses a run for an incomplete batch, and starts to withdraw the batch's commit.

        The error also goes to callers, who may refuse the run with it, too: whoever refuses a run
        first is the one to withdraw the commit.
        """
        with self._lock:
            if not self._closed and self._batches.refuse(query_id, error):
                self._threads.submit(self._withdraw_alone, query_id, run_id, error)

    def close(self) -> None:
        """Waits for running publications; idempotent."""
        with self._lock:
            self._closed = True
        self._stopping.set()
        self._threads.shutdown()

    def _publish(self, query_id: bytes) -> None:
        try:
            while commit_round := self._batches.next_round(query_id):
                checked = self._checked(commit_round)
                if checked is None:
                    return
                commit_round = checked
                seals: dict[str, list[backend_pb2.SealedSubtask]] = {}
                over = False
                try:
                    try:
                        seals = self._clients.commit(commit_round)
                    finally:
                        # Servers report seals once, so they are written whatever happened.
                        over = self._write(commit_round, seals)
                finally:
                    # Also after a defect: a round that never ends would block all later batches.
                    if not over:
                        self._batches.abandon_round(commit_round)
                if not over:
                    return
                # Before the end, which answers those who wait for the batch.
                self._timers.report(commit_round, seals)
                anomalies = self._batches.end_round(commit_round, seals)
                self._facts.published(query_id, commit_round.commit)
                self._published.set()
                for anomaly in anomalies:
                    self._report(query_id, anomaly)
        except Exception:  # noqa: BLE001 - nobody waits for the outcome of this thread
            _log.exception("commits of query %s are not pushed", query_id.hex())

    def _checked(self, commit_round: CommitRound) -> CommitRound | None:
        """The round up to its last complete batch; None if nothing may be published."""
        checked: CommitRound | None = None
        try:
            checked = self._complete_part(commit_round)
        except SupersededError as fenced:
            _log.info("a commit is not pushed: %s", fenced)
        finally:
            # Also after a defect: a round that never ends would block all later batches.
            if checked is None:
                self._batches.abandon_round(commit_round)
        return checked

    def _complete_part(self, commit_round: CommitRound) -> CommitRound | None:
        query_id = commit_round.query_id
        error = self._first_error(commit_round)
        if error is None:
            return commit_round
        if not self._strict:
            _log.error("%s: %s", error.reason_name, error)
            self._batches.count_incomplete(query_id)
            return commit_round
        complete_to = error.batch_id - 1
        if complete_to > commit_round.after:
            return replace(commit_round, commit=replace(commit_round.commit, version=complete_to))
        if self._batches.refuse(query_id, error):
            self._withdraw(query_id, commit_round.run_id, error)
        return None

    def _first_error(self, commit_round: CommitRound) -> IncompleteBatchError | None:
        """The error of the first incomplete batch of a round; None if all are complete.

        Retries while root or offsets cannot be read.
        """
        query_id = commit_round.query_id
        version = commit_round.commit.version
        seals = self._clients.sealed(query_id, version, commit_round.addresses)

        def check() -> IncompleteBatchError | None:
            # Raises if another driver has taken over the job: its commit must not be refused.
            self._fencing.check_query(query_id)
            for batch_id in range(commit_round.after + 1, version + 1):
                for missed in self._operators.missed(query_id, batch_id, seals):
                    error = self._incomplete(query_id, missed)
                    if error is not None:
                        return error
            return None

        return retrying_blocking(
            check,
            _ROOT_RETRIES,
            deadline_s=time.monotonic() + self._manifest_timeout_s,
            wait=self._stopping.wait,
            before_retry=lambda failure: _log.warning(
                "batch %d cannot be checked now: %s", version, failure
            ),
        )

    def _incomplete(self, query_id: bytes, missed: MissedOperator) -> IncompleteBatchError | None:
        """The error of an operator that missed a batch with input; None if it has sealed it.

        With a durable root, the files of the batch decide about unreported subtasks; without one,
        a subtask whose owner did not answer counts as sealed. Raises if the root or the offsets
        cannot be read now.
        """
        root = self._roots.of(query_id)
        missing: Sequence[int] = missed.unsealed
        if root is not None:
            if missed.batch_id < root.first_batch or root.manifest(missed.batch_id) is not None:
                return None
            digest = self._engine.clocks(query_id, missed.batch_id).offsets_digest
            files = list_committed(root, missed.batch_id, digest)
            missing = [i for i in _uncovered(files, missed.layout) if i in missed.missing]
        sources = missed.layout.sources
        if not missing or not self._engine.has_input(query_id, missed.batch_id, sources):
            return None
        return missed.error(missing)

    def _withdraw_alone(
        self, query_id: bytes, run_id: bytes, error: IncompleteBatchError | LostBatchError
    ) -> None:
        """Same as `_withdraw`, on a thread of its own."""
        try:
            self._withdraw(query_id, run_id, error)
        except Exception:  # noqa: BLE001 - nobody waits for the outcome of this thread
            _log.exception(
                "the commit of batch %d of query %s is not withdrawn",
                error.batch_id,
                query_id.hex(),
            )

    def _withdraw(
        self, query_id: bytes, run_id: bytes, error: IncompleteBatchError | LostBatchError
    ) -> None:
        """Stops a query, and withdraws the engine's commit of an incomplete batch after its end.

        The state stays as of the batch before, so that the next run of the query begins with the
        batch again, of the same offsets. Blocking: it waits for the end of the query, because a
        running one could commit the next batch meanwhile.
        """
        _log.error("%s: %s", error.reason_name, error)
        try:
            self._engine.stop_query(query_id, error)
            if not self._await_end(query_id, run_id):
                return
            # What another driver has committed since is its own.
            self._fencing.check_query(query_id)
            hindrance = self._engine.withdraw_commits(query_id, error.batch_id)
        except QueryableStateError as failure:
            _log.error(
                "query %s: Spark's commit of batch %d is not withdrawn (%s); the next run of the "
                "query is refused for the same batch, and withdraws it",
                query_id.hex(),
                error.batch_id,
                failure,
            )
            return
        _log.warning(
            "query %s: Spark's commit of batch %d is withdrawn, the state is as of batch %d; the "
            "next run of the query begins with batch %d%s",
            query_id.hex(),
            error.batch_id,
            error.batch_id - 1,
            error.batch_id,
            f". But {hindrance}" if hindrance else "",
        )

    def _await_end(self, query_id: bytes, run_id: bytes) -> bool:
        """Waits for the end of a run; False where it does not come, or the coordinator stops."""
        give_up_s = time.monotonic() + _END_S
        while time.monotonic() < give_up_s:
            info = self._engine.query(query_id)
            if info is None or not info.active or info.run_id != run_id:
                return True
            if self._stopping.wait(_POLL_S):
                return False
        _log.error("query %s does not end: Spark's commit is not withdrawn", query_id.hex())
        return False

    def _write(
        self, commit_round: CommitRound, seals: dict[str, list[backend_pb2.SealedSubtask]]
    ) -> bool:
        """Writes due manifests, with retries; False if the run is fenced or was stopped."""
        query_id = commit_round.query_id
        version = commit_round.commit.version
        unreported: list[ChangelogFile] = []

        def write() -> None:
            self._manifests.write(commit_round, seals, unreported)
            self._catch_up(query_id, seals, unreported)

        try:
            retrying_blocking(
                write,
                _ROOT_RETRIES,
                deadline_s=time.monotonic() + self._manifest_timeout_s,
                wait=self._stopping.wait,
                before_retry=lambda failure: _log.warning(
                    "the manifest of batch %d is not written: %s", version, failure
                ),
            )
        except SupersededError:
            # The run is fenced: its manifests do not count.
            return False
        except QueryableStateError as failure:
            if not self._stopping.is_set():
                error = CheckpointError(
                    f"which changelogs are batch {version} could not be written within "
                    f"{self._manifest_timeout_s:g} s, and the job cannot go on without that; "
                    f"nothing is lost: restart it when its root can be written ({failure})",
                    reason=Reason.STORAGE_WRITE_FAILED,
                )
                self._stop(query_id, error)
            return False
        return True

    def _catch_up(
        self, query_id: bytes, answered: Collection[str], unreported: Sequence[ChangelogFile]
    ) -> None:
        """Makes servers reload stores that lack changelogs of a batch."""
        behind = self._batches.behind(query_id, answered, unreported)
        if not behind:
            return
        _log.warning("servers %s lack changelogs of a batch, and load them", ", ".join(behind))
        dropped = self._clients.drop_query(query_id, behind.values())
        gone = {server_id for server_id, address in behind.items() if address in dropped}
        self._batches.close_stores(query_id, gone)
        if len(dropped) < len(behind):
            raise RetryLaterError("a server that must reload its state does not answer")

    def _report(self, query_id: bytes, anomaly: BatchAnomaly) -> None:
        # Stopping the job does not bring lost records back.
        if self._strict_determinism and isinstance(anomaly.error, JobError):
            self._stop(query_id, anomaly.error)
        else:
            _log.error("%s: %s", anomaly.error.reason_name, anomaly.error)

    def _stop(self, query_id: bytes, error: QueryableStateError) -> None:
        _log.error("%s: %s", error.reason_name, error)
        try:
            self._engine.stop_query(query_id, error)
        except QueryableStateError as failure:
            _log.error("query %s is not stopped: %s", query_id.hex(), failure)


def _uncovered(files: Iterable[ChangelogFile], layout: OperatorLayout) -> list[int]:
    """Returns the subtasks of an operator that these changelogs do not cover completely."""
    parallelism, max_parallelism = layout.parallelism, layout.max_parallelism
    missing = uncovered_key_groups(files, layout)
    return sorted({subtask_of(group, parallelism, max_parallelism) for group in missing})
