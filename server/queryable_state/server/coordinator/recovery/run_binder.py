"""Binding of a run to its configuration, epoch and root, at its first begin."""

from __future__ import annotations

import logging
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

from queryable_state.internal.v1.checkpoint_pb2 import Timeline
from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint.state_root import StateRoot
from queryable_state.server.checkpoint.timelines import timeline_of
from queryable_state.server.coordinator.batches.run_operators import (
    IncompleteBatchError,
    LostBatchError,
)
from queryable_state.server.coordinator.model.commits import Commit
from queryable_state.server.coordinator.recovery.root_loader import RootLoader
from queryable_state.server.coordinator.roots.job_roots import JobRoot
from queryable_state.server.job_names import job_label
from queryable_state.wire.errors import RetryLaterError, SupersededError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from queryable_state.internal.v1 import coordinator_pb2
    from queryable_state.internal.v1.checkpoint_pb2 import JobStorage
    from queryable_state.server.checkpoint.file_systems.storage import ObjectStore
    from queryable_state.server.coordinator.batches.commit_publisher import CommitPublisher
    from queryable_state.server.coordinator.model.engine import Engine, QueryInfo
    from queryable_state.server.coordinator.model.epochs import Epochs
    from queryable_state.server.coordinator.model.job_config import JobConfig, JobConfigs
    from queryable_state.server.coordinator.model.run import RunStart
    from queryable_state.server.coordinator.model.state import CoordinatorState
    from queryable_state.server.coordinator.roots.endpoint_files import EndpointFiles
    from queryable_state.server.coordinator.roots.job_roots import JobRoots
    from queryable_state.server.coordinator.servers.state_server_clients import StateServerClients

_log = logging.getLogger(__name__)

_LOADING_S = 3.0
_RETRY_MS = 200


class RunBinder:
    """Binds each run to its configuration, its epoch and its job's root. Thread-safe.

    A run is bound once, by its first begin. Concurrent begins of the run wait for a moment, then
    get RetryLaterError. Reads and writes the root outside of transactions of the coordinator's
    state.
    """

    def __init__(
        self,
        engine: Engine,
        state: CoordinatorState,
        configs: JobConfigs,
        roots: JobRoots,
        epochs: Epochs,
        objects: ObjectStore,
        publisher: CommitPublisher,
        clients: StateServerClients | None = None,
        *,
        endpoints: EndpointFiles | None = None,
        strict: bool = True,
    ) -> None:
        """Without `clients`, servers learn from their leases which stores to drop. Unless `strict`,
        batches that an operator missed are accepted."""
        self._engine = engine
        self._clients = clients
        self._state = state
        self._configs = configs
        self._roots = roots
        self._epochs = epochs
        self._objects = objects
        self._publisher = publisher
        self._endpoints = endpoints
        self._loader = RootLoader(engine, strict=strict)
        self._lock = threading.Lock()
        self._loading: dict[bytes, threading.Lock] = {}

    def is_bound(self, query_id: bytes, run_id: bytes) -> bool:
        """Whether the run has begun: its epoch is allocated, and its root is loaded."""
        return self._roots.bound_run(query_id) == run_id

    def is_durable(self, config_id: str, info: QueryInfo) -> bool:
        """Whether a run of a query with this configuration keeps its state in a root."""
        return bool(_root_uri(self._configs.find(config_id), info))

    def run(self, query_id: bytes, run_id: bytes) -> tuple[int, JobStorage, Timeline]:
        """The epoch of a bound run, how its job keeps state, and the timeline of its batches."""
        epoch, config = self._epochs.find(query_id, run_id), self._roots.config(query_id)
        if epoch is None or config is None:
            raise SupersededError(f"a newer run of query {query_id.hex()} has taken over")
        root = self._roots.of(query_id)
        if root is None:
            return epoch, config.storage(""), timeline_of(query_id, Timeline())
        return epoch, root.job_storage(), root.timeline

    def bind(
        self,
        request: coordinator_pb2.BeginBatchRequest,
        info: QueryInfo,
        still_newest: Callable[[], None] | None = None,
    ) -> None:
        """Binds a run at its first begin; `still_newest` raises if a newer run has taken over.

        Without it, the engine is asked for the newest run.

        Raises CheckpointError or RestoreMismatchError if the run cannot continue from the root,
        SupersededError if another driver has. The run processes nothing then. Refuses a run whose
        newest batch is incomplete, and withdraws Spark's commit of that batch.
        """
        query_id, run_id = request.query_id, request.run_id
        try:
            with self._alone(query_id):
                if not self.is_bound(query_id, run_id):
                    self._bind(request, info, still_newest or (lambda: self._check_newest(request)))
        except (IncompleteBatchError, LostBatchError) as error:
            self._publisher.refuse(query_id, run_id, error)
            raise

    def _bind(
        self,
        request: coordinator_pb2.BeginBatchRequest,
        info: QueryInfo,
        still_newest: Callable[[], None],
    ) -> None:
        query_id, run_id = request.query_id, request.run_id
        config = self._configs.find(request.config_id)
        uri = _root_uri(config, info)
        if not uri:
            self._epochs.of(query_id, run_id)
            # If a newer run started meanwhile, this epoch must stay unused: it may be larger
            # than that of the newer run.
            still_newest()
            fresh = self._roots.of(query_id) is not None
            self._take(request, info, config, None, fresh=fresh)
            return
        self._check_not_set_back(request, info)
        self._check_alone(request, uri)
        storage = storage_of(uri, config.storage_options, fsync=config.fsync, objects=self._objects)
        root = StateRoot(uri, storage)
        self._loader.check(root, query_id, info.name)
        epoch = self._epochs.of(query_id, run_id, root)
        still_newest()
        before = self._roots.of(query_id)
        # Another driver may have run the job in between, and have ended. The epochs show that
        # until the run is bound, however often binding fails.
        fresh = before is None or before.uri != root.uri or epoch != before.epoch + 1
        # Batches of an earlier run of this driver get their manifests from its commit rounds.
        complete_to = request.batch_id - 1 if fresh else self._committed(query_id)
        loaded = self._loader.load(
            JobRoot(query_id, run_id, config, root, epoch=epoch),
            info.name,
            request.batch_id,
            complete_to=complete_to,
            start=self._start(query_id),
        )
        self._check_claims(loaded, info)
        self._take(request, info, config, loaded, fresh=fresh, complete_to=complete_to)
        if self._endpoints is not None:
            self._endpoints.publish(uri, storage)
        _log.info(
            "job %r begins at batch %d with epoch %d; its state is kept in %s "
            "(%d checkpoints, first batch %d)",
            info.name,
            request.batch_id,
            epoch,
            uri,
            len(loaded.checkpoints()),
            loaded.first_batch,
        )

    def _check_newest(self, request: coordinator_pb2.BeginBatchRequest) -> None:
        info = self._engine.query(request.query_id)
        if info is None or info.run_id != request.run_id:
            raise SupersededError(f"query {request.query_id.hex()} has a newer run")

    def forget(self, query_id: bytes) -> None:
        """Forgets a dropped query; its files stay."""
        self._roots.forget(query_id)
        self._epochs.forget(query_id)
        with self._lock:
            self._loading.pop(query_id, None)

    def _take(
        self,
        request: coordinator_pb2.BeginBatchRequest,
        info: QueryInfo,
        config: JobConfig,
        root: JobRoot | None,
        *,
        fresh: bool,
        complete_to: int = -1,
    ) -> None:
        state, query_id = self._state, request.query_id
        if fresh:
            self._empty_servers(query_id)
        with state.transaction():
            job = state.enter(query_id, info)
            if root is not None and not fresh and state.commits.version(query_id) != complete_to:
                # Its manifest may be written to the root as the run before holds it.
                raise RetryLaterError(
                    f"a batch after {complete_to} of query {query_id.hex()} was found to be "
                    f"committed while {root.uri} was read, which is read again",
                    retry_after_ms=_RETRY_MS,
                )
            if fresh and job.first_batch is not None:
                state.restart(job)
            if root is not None:
                # States without a file can be replaced; only ids of other jobs can collide.
                state.states.adopt(query_id, root.registrations.states)
                state.states.declare(query_id, config.declared)
                state.commits.enter(query_id, _committed(root, request.batch_id - 1))
            self._roots.bind(query_id, request.run_id, config, root)

    def _check_claims(self, root: JobRoot, info: QueryInfo) -> None:
        """Refuses a run that lacks operators whose state the root has."""
        if root.stored.is_empty:
            return
        names = root.config.operators
        if names is None:
            start = self._start(root.query_id)
            if start is None or not start.operators:
                return
            names = dict.fromkeys((operator.uid for operator in start.operators), "")
        label = job_label(info.name, root.query_id)
        root.stored.check_operators(names, label, allow=root.config.allow_non_restored_state)

    def _empty_servers(self, query_id: bytes) -> None:
        """Drops all stores of a query: they differ from the root, and no task may read them."""
        with self._state.transaction():
            addresses = set(self._state.holders(query_id).values())
        if not addresses or self._clients is None:
            return
        staying = addresses - self._clients.drop_query(query_id, addresses)
        if staying:
            raise RetryLaterError(
                f"state servers at {', '.join(sorted(staying))} hold what query {query_id.hex()} "
                "had before another driver went on with it, and do not answer",
                retry_after_ms=_RETRY_MS,
            )

    def _start(self, query_id: bytes) -> RunStart | None:
        with self._state.transaction():
            job = self._state.jobs.find(query_id)
            return None if job is None else job.run.start

    def _committed(self, query_id: bytes) -> int:
        with self._state.transaction():
            return self._state.commits.version(query_id)

    def _check_not_set_back(
        self, request: coordinator_pb2.BeginBatchRequest, info: QueryInfo
    ) -> None:
        """Refuses a run that begins before what servers have committed; before any I/O."""
        state = self._state
        with state.transaction():
            job = state.enter(request.query_id, info)
            if job.first_batch is not None:
                state.contact(job, request.batch_id)

    def _check_alone(self, request: coordinator_pb2.BeginBatchRequest, uri: str) -> None:
        """Refuses a run whose batch another driver has committed, before the run takes an epoch."""
        if self._engine.is_committed(request.query_id, request.batch_id):
            raise SupersededError(
                f"batch {request.batch_id} of query {request.query_id.hex()} begins, and is "
                f"committed: another driver runs the same query on {uri}; end one of the two"
            )

    @contextmanager
    def _alone(self, query_id: bytes) -> Iterator[None]:
        with self._lock:
            loading = self._loading.setdefault(query_id, threading.Lock())
        if not loading.acquire(timeout=_LOADING_S):
            raise RetryLaterError(
                f"the state root of query {query_id.hex()} is being read", retry_after_ms=_RETRY_MS
            )
        try:
            yield
        finally:
            loading.release()


def _root_uri(config: JobConfig, info: QueryInfo) -> str:
    if not config.changelog:
        return ""
    if config.state_root:
        return config.state_root
    return layout.beside(info.checkpoint_location) if info.checkpoint_location else ""


def _committed(root: JobRoot, version: int) -> Commit:
    manifest = root.manifest(version)
    if manifest is not None:
        return Commit(version, manifest.commit_time_ms, manifest.watermark_ms)
    for metadata in root.checkpoints():
        if metadata.version == version:
            return Commit(version, metadata.commit_time_ms, metadata.watermark_ms)
    if root.savepoint is not None and root.savepoint.version == version:
        return Commit(version, root.savepoint.commit_time_ms, root.savepoint.watermark_ms)
    return Commit(version, 0, 0)
