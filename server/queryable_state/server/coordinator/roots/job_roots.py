"""Registry of the durable roots of this driver's jobs, loaded at the first begin of a run."""

from __future__ import annotations

import threading
from bisect import bisect_right, insort
from typing import TYPE_CHECKING

from queryable_state.internal.v1.checkpoint_pb2 import RootRegistrations
from queryable_state.server.checkpoint.timelines import timeline_of
from queryable_state.server.coordinator.roots.stored_states import StoredStates, stored_uids

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from queryable_state.internal.v1.checkpoint_pb2 import (
        CheckpointMetadata,
        JobStorage,
        Manifest,
        Timeline,
    )
    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage
    from queryable_state.server.checkpoint.state_root import StateRoot
    from queryable_state.server.coordinator.model.job_config import JobConfig
    from queryable_state.v1.registration_pb2 import StateRegistration


class JobRoot:
    """One run's hold of its job's durable root, and what the root has.

    What is on disk and what is known here agree as long as the run's epoch is the newest: only
    the coordinator of that run writes. Thread-safe; no I/O but through `root`.
    """

    def __init__(
        self,
        query_id: bytes,
        run_id: bytes,
        config: JobConfig,
        root: StateRoot,
        *,
        epoch: int,
    ) -> None:
        self.query_id = query_id
        self.run_id = run_id
        self.config = config
        self.root = root
        self.epoch = epoch
        self.savepoint: CheckpointMetadata | None = None
        """The savepoint the root started from; None if there is none, or it is unreadable."""
        self.stored = StoredStates(root.uri, (), (), ())
        """The states the root had when the run began."""
        self.registering = threading.Lock()
        """Held from comparing the registrations until they are written."""
        self.checking = threading.Lock()
        """Held while the root is checked for newer epochs before a batch."""
        self.checked_batch = -1
        """The batch of the last such check."""
        self._lock = threading.Lock()
        self._registrations = RootRegistrations()
        self._registrations_name = ""
        self._checkpoints: list[CheckpointMetadata] = []
        self._manifests: list[Manifest] = []
        self._newest_savepoint: tuple[str, CheckpointMetadata] | None = None

    def fill(
        self,
        registrations: tuple[str, RootRegistrations],
        checkpoints: Iterable[CheckpointMetadata],
        manifests: Iterable[Manifest],
        savepoint: CheckpointMetadata | None,
    ) -> None:
        """Takes what the root has; before anybody else sees this.

        `registrations` come with their file name, empty where they are not written yet.
        """
        self.savepoint = savepoint
        self._registrations_name, self._registrations = registrations
        self._checkpoints = sorted(checkpoints, key=_checkpoint_order, reverse=True)
        self._manifests = sorted(manifests, key=_batch_of)

    @property
    def uri(self) -> str:
        """URI of the root."""
        return self.root.uri

    @property
    def storage(self) -> CheckpointStorage:
        """Storage of the root's files."""
        return self.root.storage

    @property
    def registrations(self) -> RootRegistrations:
        """The registrations written last; callers may not modify them."""
        with self._lock:
            return self._registrations

    @property
    def registrations_name(self) -> str:
        """Name of the file of `registrations`."""
        with self._lock:
            return self._registrations_name

    @property
    def first_batch(self) -> int:
        """The first batch the root has changelogs of."""
        return self.registrations.first_batch

    @property
    def states(self) -> Mapping[int, StateRegistration]:
        """The states of `registrations`, by the ids in the root's files."""
        return {state.state_id: state for state in self.registrations.states}

    @property
    def timeline(self) -> Timeline:
        """The timeline of the job's batches."""
        return timeline_of(self.query_id, self.registrations.timeline)

    @property
    def complete_since(self) -> int:
        """First batch since which the state of the root is complete; 0: all of it is."""
        if not self.registrations.restored_from:
            return self.first_batch
        if self.savepoint is not None:
            return self.savepoint.complete_since_batch
        # The savepoint was removed, which is allowed once a checkpoint replaces it.
        newest = self.checkpoints()
        return newest[0].complete_since_batch if newest else self.first_batch

    def survey(self) -> None:
        """Records the stored states, after the root is loaded and its manifests are complete."""
        with self._lock:
            self.stored = StoredStates.of(
                self.uri, self._registrations, self._checkpoints, self._manifests, self.savepoint
            )

    def stored_uids(self, up_to: int) -> set[str]:
        """The operators whose files a restore after a batch would read."""
        with self._lock:
            manifests = [m for m in self._manifests if m.batch_id <= up_to]
            return stored_uids(self._checkpoints, manifests, self.savepoint)

    def job_storage(self) -> JobStorage:
        """The root as servers get it."""
        return self.config.storage(self.uri)

    def write_registrations(self, record: RootRegistrations) -> None:
        """Writes registrations as the newest ones. I/O."""
        name = self.root.write_registrations(self.epoch, record)
        with self._lock:
            self._registrations_name, self._registrations = name, record

    def checkpoints(self) -> list[CheckpointMetadata]:
        """Complete checkpoints, newest first."""
        with self._lock:
            return list(self._checkpoints)

    def add_checkpoint(self, metadata: CheckpointMetadata) -> None:
        """Adds a checkpoint whose metadata is written."""
        with self._lock:
            self._checkpoints.insert(0, metadata)
            self._checkpoints.sort(key=_checkpoint_order, reverse=True)

    def add_savepoint(self, uri: str, metadata: CheckpointMetadata) -> None:
        """Records a complete savepoint of the run, readable until its user removes it."""
        with self._lock:
            self._newest_savepoint = (uri, metadata)

    def newest_savepoint(self) -> tuple[str, CheckpointMetadata] | None:
        """URI and metadata of the run's newest savepoint; None if it has none."""
        with self._lock:
            return self._newest_savepoint

    def keep_checkpoints(self, kept: Sequence[CheckpointMetadata]) -> None:
        """Retention begins: the other checkpoints, and changelogs only they need, are given up.

        Called before files are removed, so that no plan names one that goes.
        """
        with self._lock:
            ids = {metadata.checkpoint_id for metadata in kept}
            self._checkpoints = [c for c in self._checkpoints if c.checkpoint_id in ids]
            if self._checkpoints:
                oldest = min(c.version for c in self._checkpoints)
                self._manifests = self._manifests[
                    bisect_right(self._manifests, oldest, key=_batch_of) :
                ]

    def manifests(self, after: int, up_to: int) -> list[Manifest]:
        """The manifests of batches after `after` up to `up_to`, by batch."""
        with self._lock:
            first = bisect_right(self._manifests, after, key=_batch_of)
            last = bisect_right(self._manifests, up_to, key=_batch_of)
            return self._manifests[first:last]

    def manifest(self, batch_id: int) -> Manifest | None:
        """The manifest of a batch; None if there is none, or retention gave it up."""
        found = self.manifests(batch_id - 1, batch_id)
        return found[0] if found else None

    def write_manifest(self, manifest: Manifest) -> None:
        """Writes the manifest of a committed batch. I/O."""
        self.root.write_manifest(manifest)
        with self._lock:
            self._manifests = [m for m in self._manifests if m.batch_id != manifest.batch_id]
            insort(self._manifests, manifest, key=_batch_of)


class JobRoots:
    """The durable roots of the jobs that have one, by query. Thread-safe, no I/O."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._roots: dict[bytes, JobRoot] = {}
        self._bound: dict[bytes, tuple[bytes, JobConfig]] = {}

    def of(self, query_id: bytes) -> JobRoot | None:
        """The root of a query; None if its state is not durable, or no run has begun a batch."""
        with self._lock:
            return self._roots.get(query_id)

    def config(self, query_id: bytes) -> JobConfig | None:
        """The configuration of the newest run; None if no run has begun a batch."""
        with self._lock:
            bound = self._bound.get(query_id)
            return None if bound is None else bound[1]

    def bound_run(self, query_id: bytes) -> bytes | None:
        """The run that was bound last; None if there is none."""
        with self._lock:
            bound = self._bound.get(query_id)
            return None if bound is None else bound[0]

    def bind(self, query_id: bytes, run_id: bytes, config: JobConfig, root: JobRoot | None) -> None:
        """Binds a run to its configuration, and to its root if state is durable."""
        with self._lock:
            self._bound[query_id] = (run_id, config)
            self._roots.pop(query_id, None)
            if root is not None:
                self._roots[query_id] = root

    def all(self) -> list[JobRoot]:
        """All roots."""
        with self._lock:
            return list(self._roots.values())

    def forget(self, query_id: bytes) -> None:
        """Forgets the root of a dropped query; its files stay."""
        with self._lock:
            self._roots.pop(query_id, None)
            self._bound.pop(query_id, None)


def _batch_of(manifest: Manifest) -> int:
    return manifest.batch_id


def _checkpoint_order(metadata: CheckpointMetadata) -> tuple[int, int]:
    return metadata.version, metadata.checkpoint_id
