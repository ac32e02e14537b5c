"""Upload of the store snapshots of one job to a state root."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from queryable_state.internal.v1 import checkpoint_pb2
from queryable_state.server.checkpoint.canonical import FILE_NAME, CanonicalWriter
from queryable_state.server.checkpoint.file_systems.storage import file_checksum, join
from queryable_state.server.checkpoint.layout import range_folder
from queryable_state.server.state_server.snapshots.live_records import LiveRecords
from queryable_state.wire.errors import CheckpointError, Reason, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from queryable_state.internal.v1 import backend_pb2
    from queryable_state.server.state_server.base.job_files import JobFiles
    from queryable_state.server.state_server.base.local_copies import LocalCopies
    from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask
    from queryable_state.server.storage.snapshot import LocalFile, StoreSnapshot

    _T = TypeVar("_T")

Content = tuple[bytes, int]
"""Checksum and size of a file."""


@dataclass(eq=False, kw_only=True)
class SubtaskSnapshot:
    """A subtask and the snapshot of its store."""

    subtask: OwnedSubtask
    store: StoreSnapshot
    folder: Path
    """Existing folder for files that the upload writes."""

    is_gone: Mapping[int, Callable[[bytes], bool]]
    """By state id: true for values that a canonical snapshot leaves out; absent: none."""

    checksums: dict[str, Content] = field(default_factory=dict)
    """Contents of immutable files of the store, by name; kept between snapshots."""


class _Written(NamedTuple):
    stored: checkpoint_pb2.StoredFile
    new_bytes: int


class SnapshotUpload:
    """Uploads one snapshot on the transfer threads.

    A file that checkpoints share is written only if the root does not have its content.
    """

    def __init__(
        self,
        request: backend_pb2.SnapshotRequest,
        files: JobFiles,
        shared: Mapping[str, int],
        copies: LocalCopies | None,
    ) -> None:
        """`shared` has the sizes of the shared files in the root; `copies` may be None."""
        self._request = request
        self._files = files
        self._shared = shared
        self._copies = copies
        self._running: set[asyncio.Future[Any]] = set()
        self._ended = False
        self.kept: list[Content] = []
        """Contents of the uploaded and reused files of all written subtasks."""

    async def write(self, snapshot: SubtaskSnapshot) -> checkpoint_pb2.RangeSnapshot:
        """Writes one subtask; returns when all its files are in the root."""
        subtask, store = snapshot.subtask, snapshot.store
        files = store.files()
        if store.format != checkpoint_pb2.ROCKSDB:
            files = [await self._transfer(_write_canonical, snapshot)]
        written = await asyncio.gather(
            *(self._transfer(self._write_file, snapshot, file) for file in files)
        )
        return checkpoint_pb2.RangeSnapshot(
            operator_uid=subtask.id.operator_uid,
            index=subtask.id.subtask,
            parallelism=subtask.id.parallelism,
            max_parallelism=subtask.id.max_parallelism,
            first_key_group=subtask.first_key_group,
            last_key_group=subtask.last_key_group,
            format=store.format,
            files=[each.stored for each in written],
            operator_states=[
                checkpoint_pb2.OperatorState(state_id=state_id, elements=elements)
                for state_id, elements in sorted(store.operator_states().items())
            ],
            sizes=[
                checkpoint_pb2.StateSize(
                    state_id=size.state_id, records=size.records, bytes=size.size_bytes
                )
                for size in store.sizes()
            ],
            new_bytes=sum(each.new_bytes for each in written),
        )

    async def aclose(self) -> None:
        """Starts no more transfers and waits for running ones; local files may be removed then."""
        self._ended = True
        if self._running:
            await asyncio.wait(set(self._running))

    async def _transfer(self, job: Callable[..., _T], *args: Any) -> _T:
        transfer = asyncio.ensure_future(self._files.transfer(self._unless_ended, job, *args))
        self._running.add(transfer)
        transfer.add_done_callback(self._transferred)
        return await asyncio.shield(transfer)

    def _transferred(self, transfer: asyncio.Future[Any]) -> None:
        self._running.discard(transfer)
        if not transfer.cancelled():
            transfer.exception()

    def _unless_ended(self, job: Callable[..., _T], *args: Any) -> _T:
        if self._ended:
            raise RetryLaterError("the snapshot was cancelled")
        return job(*args)

    def _write_file(self, snapshot: SubtaskSnapshot, file: LocalFile) -> _Written:
        request, storage = self._request, self._files.storage
        content = snapshot.checksums.get(file.name) if file.shared else None
        if content is None:
            content = file_checksum(file.path), file.path.stat().st_size
            if file.shared:
                snapshot.checksums[file.name] = content
        checksum, size_bytes = content
        stored = checkpoint_pb2.StoredFile(name=file.name, size_bytes=size_bytes, checksum=checksum)
        if size_bytes <= self._files.settings.inline_bytes:
            stored.inlined = file.path.read_bytes()
            return _Written(stored, size_bytes)
        new_bytes = size_bytes
        if file.shared and request.shared_directory:
            name = f"{checksum.hex()}-{size_bytes}"
            stored.path = f"{request.shared_directory}/{name}"
            if self._shared.get(name) == size_bytes:
                new_bytes = 0
        else:
            subtask = snapshot.subtask
            folder = range_folder(
                request.directory,
                subtask.id.operator_uid,
                subtask.first_key_group,
                subtask.last_key_group,
            )
            stored.path = f"{folder}/{file.name}"
        if new_bytes:
            storage.upload(file.path, join(request.root, stored.path))
        self.kept.append(content)
        if self._copies is not None:
            self._copies.add(snapshot.subtask.id.query_id, checksum, size_bytes, file.path)
        return _Written(stored, new_bytes)


def _write_canonical(snapshot: SubtaskSnapshot) -> LocalFile:
    from queryable_state.server.storage.snapshot import LocalFile

    path = snapshot.folder / FILE_NAME
    try:
        with CanonicalWriter(path) as writer:
            snapshot.store.write_canonical(LiveRecords(writer, snapshot.is_gone))
    except OSError as problem:
        raise CheckpointError(
            f"a snapshot cannot be written to this executor's disk before it is stored: {path}: "
            f"{problem}: look at the disk (space, ulimit -f, permissions)",
            reason=Reason.STORAGE_WRITE_FAILED,
        ) from problem
    return LocalFile(FILE_NAME, path, shared=False)
