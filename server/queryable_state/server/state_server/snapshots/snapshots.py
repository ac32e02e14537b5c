"""Snapshots of the subtasks of a job that this server owns."""

from __future__ import annotations

import asyncio
import logging
import shutil
import time
import uuid
from contextlib import AsyncExitStack, aclosing, contextmanager
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from queryable_state.internal.v1 import backend_pb2, checkpoint_pb2
from queryable_state.server.checkpoint.file_systems.storage import join
from queryable_state.server.state_server.snapshots.live_records import removable_values
from queryable_state.server.state_server.snapshots.upload import (
    Content,
    SnapshotUpload,
    SubtaskSnapshot,
)
from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask, SubtaskId
from queryable_state.wire.errors import (
    LimitExceededError,
    PlacementError,
    QueryableStateError,
    Reason,
    RetryLaterError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator, Sequence
    from pathlib import Path

    from queryable_state.server.state_server.base.background_thread import BackgroundThread
    from queryable_state.server.state_server.base.job_files import FileSystems, JobFiles
    from queryable_state.server.state_server.base.lease import Lease
    from queryable_state.server.state_server.base.local_copies import LocalCopies
    from queryable_state.server.state_server.base.thread_pool import ThreadPool
    from queryable_state.server.state_server.stores.compactor import Compactor
    from queryable_state.server.state_server.stores.job_stores import JobStores
    from queryable_state.server.state_server.stores.store_factory import StoreFactory
    from queryable_state.server.state_server.stores.store_table import StoreTable
    from queryable_state.server.storage.snapshot import StoreSnapshot
    from queryable_state.server.storage.store import StateStore

_log = logging.getLogger(__name__)

_BEHIND_RETRY_MS = 200


class Snapshots:
    """Serves `Snapshot`: compacts and snapshots stores on the background thread, and uploads on
    the transfer threads.

    Batches and queries continue meanwhile: compaction runs in steps, a store snapshot is short, and
    nothing waits for the upload. However a snapshot ends, only the copies that a restore may use
    stay on the local disk.
    """

    def __init__(
        self,
        table: StoreTable,
        lease: Lease,
        background: BackgroundThread,
        compactor: Compactor,
        stores: StoreFactory,
        file_systems: FileSystems,
        copies: LocalCopies,
        threads: ThreadPool,
        scratch: Path,
        *,
        server_id: str,
    ) -> None:
        self._table = table
        self._lease = lease
        self._background = background
        self._compactor = compactor
        self._stores = stores
        self._file_systems = file_systems
        self._copies = copies
        self._threads = threads
        self._scratch = scratch
        self._server_id = server_id
        self._checksums: WeakKeyDictionary[StateStore, dict[str, Content]] = WeakKeyDictionary()

    async def write(
        self, request: backend_pb2.SnapshotRequest
    ) -> AsyncGenerator[backend_pb2.SnapshotEvent]:
        """Yields an event when all store snapshots are taken, then one for each written subtask.

        Raises `PlacementError` for a subtask this server does not own, `RetryLaterError`
        (BEHIND) for a batch it has not committed, `LimitExceededError` for a state that is too
        large, and the errors of the storage.
        """
        job, subtasks = self._subtasks(request)
        async with aclosing(self._write(request, job, subtasks)) as events:
            try:
                async for event in events:
                    yield event
            except QueryableStateError as failure:
                # A store that has left the table is closed, which fails its readers.
                for subtask in subtasks:
                    if self._table.subtask(subtask.id) is not subtask:
                        raise self._not_owned(subtask.id) from failure
                raise

    async def _write(
        self,
        request: backend_pb2.SnapshotRequest,
        job: JobStores,
        subtasks: Sequence[OwnedSubtask],
    ) -> AsyncGenerator[backend_pb2.SnapshotEvent]:
        begun_s = time.monotonic()
        settings = job.settings
        files = await self._file_systems.at(request.root, settings)
        scratch = self._scratch / uuid.uuid4().hex
        async with AsyncExitStack() as stack:
            await self._threads.run(scratch.mkdir, parents=True)
            stack.push_async_callback(self._remove, scratch)
            with _hold_version(job, request.version):
                snapshots = [
                    await self._snapshot(stack, request, job, subtask, scratch)
                    for subtask in subtasks
                ]
            for snapshot in snapshots:
                _check_sizes(request, snapshot, settings.max_state_bytes)
            yield backend_pb2.SnapshotEvent(
                cut=backend_pb2.SnapshotCut(
                    duration_us=round((time.monotonic() - begun_s) * 1_000_000)
                )
            )
            # A restore of this server never starts from a savepoint.
            copies = self._copies if request.checkpoint_id else None
            upload = SnapshotUpload(
                request, files, await self._shared_files(request, files), copies
            )
            stack.push_async_callback(upload.aclose)
            writing = [asyncio.create_task(upload.write(snapshot)) for snapshot in snapshots]
            try:
                for written in asyncio.as_completed(writing):
                    yield backend_pb2.SnapshotEvent(range=await written)
            finally:
                for task in writing:
                    task.cancel()
                await asyncio.gather(*writing, return_exceptions=True)
            if copies is not None:
                await self._threads.run(copies.completed, request.query_id, upload.kept)

    def _subtasks(
        self, request: backend_pb2.SnapshotRequest
    ) -> tuple[JobStores, list[OwnedSubtask]]:
        """The subtasks to write; raises unless this server owns all of them at the version."""
        self._lease.check()
        job = self._table.job(request.query_id)
        subtasks = []
        for requested in request.subtasks:
            subtask_id = SubtaskId.of(requested)
            subtask = self._table.subtask(subtask_id)
            if job is None or subtask is None:
                raise self._not_owned(subtask_id)
            subtasks.append(subtask)
        if job is None or job.committed_version < request.version:
            raise RetryLaterError(
                f"server {self._server_id} has not committed batch {request.version} of job "
                f"{request.query_id.hex()}, which the snapshot needs: retry after the commit",
                reason=Reason.BEHIND,
                retry_after_ms=_BEHIND_RETRY_MS,
            )
        return job, subtasks

    async def _snapshot(
        self,
        stack: AsyncExitStack,
        request: backend_pb2.SnapshotRequest,
        job: JobStores,
        subtask: OwnedSubtask,
        scratch: Path,
    ) -> SubtaskSnapshot:
        native = request.format != checkpoint_pb2.CANONICAL
        await self._compactor.compact_to(subtask, request.version)
        if native:
            # Not on the background thread: most of the time goes into flushing memory to disk.
            await self._threads.run(subtask.store.flush)
        self._lease.check()
        # Checked in the loop turn that submits the job: a store that leaves the table later is
        # closed by a later job of the same thread.
        if self._table.subtask(subtask.id) is not subtask:
            raise self._not_owned(subtask.id)
        path = self._stores.snapshot_path(subtask.store) if native else None
        if path is not None:
            stack.push_async_callback(self._remove, path)
        store_snapshot: StoreSnapshot = await self._background.run(
            subtask.store.snapshot, request.version, path
        )
        stack.push_async_callback(self._close, store_snapshot)
        folder = scratch / uuid.uuid4().hex
        await self._threads.run(folder.mkdir)
        known = self._checksums.setdefault(subtask.store, {})
        return SubtaskSnapshot(
            subtask=subtask,
            store=store_snapshot,
            folder=folder,
            is_gone=removable_values(subtask.states, job.timestamp_at(request.version)),
            checksums=known,
        )

    async def _shared_files(
        self, request: backend_pb2.SnapshotRequest, files: JobFiles
    ) -> dict[str, int]:
        """Sizes of the files that checkpoints share already, by name."""
        if not request.shared_directory:
            return {}
        entries = await files.transfer(
            files.storage.walk, join(request.root, request.shared_directory)
        )
        return {entry.path: entry.size_bytes for entry in entries}

    async def _close(self, snapshot: StoreSnapshot) -> None:
        await self._background.run(snapshot.close)

    async def _remove(self, folder: Path) -> None:
        await self._threads.run(shutil.rmtree, folder, ignore_errors=True)

    def _not_owned(self, subtask_id: SubtaskId) -> PlacementError:
        return PlacementError(
            f"{subtask_id} is not owned by server {self._server_id}, which was asked to write it",
            placement_version=self._lease.placement_version,
        )


@contextmanager
def _hold_version(job: JobStores, version: int) -> Iterator[None]:
    """Prevents compaction above a version."""
    job.held_versions.append(version)
    try:
        yield
    finally:
        job.held_versions.remove(version)


def _check_sizes(
    request: backend_pb2.SnapshotRequest, snapshot: SubtaskSnapshot, max_state_bytes: int
) -> None:
    if not (max_state_bytes and request.checkpoint_id):
        return
    for size in snapshot.store.sizes():
        if size.size_bytes <= max_state_bytes:
            continue
        registration = snapshot.subtask.states.get(size.state_id)
        name = registration.state_name if registration else str(size.state_id)
        raise LimitExceededError(
            f"state {name!r} of {snapshot.subtask.id} has {size.size_bytes} bytes, and checkpoints "
            f"in {request.root} allow {max_state_bytes} (max_state_size): keep checkpoints in "
            "files (FsStateBackend, RocksDBStateBackend), raise the parallelism, or the limit"
        )
