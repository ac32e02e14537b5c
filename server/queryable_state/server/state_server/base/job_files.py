"""Access of a state server to the durable files of jobs."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, TypeVar

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.json_settings import json_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from queryable_state.internal.v1.checkpoint_pb2 import JobStorage
    from queryable_state.server.checkpoint.file_systems.storage import (
        CheckpointStorage,
        ObjectStore,
    )
    from queryable_state.server.coordinator_client import CoordinatorClient
    from queryable_state.server.state_server.base.thread_pool import ThreadPool


TRANSFER_THREADS = 4
"""Default number of files that a job reads or writes at once."""

# The part of a URI that selects a file system: the scheme, and the host or bucket.
_PLACE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(?://[^/]*)?")

_T = TypeVar("_T")

_TIMEOUT_S = 60.0


class DriverObjects:
    """An `ObjectStore` in the driver's memory, reached through the coordinator.

    Its methods block: call them on any thread except the event loop's, which sends the RPCs.
    """

    def __init__(self, coordinator: CoordinatorClient, loop: asyncio.AbstractEventLoop) -> None:
        self._coordinator = coordinator
        self._loop = loop

    def put(self, path: str, data: bytes, exclusive: bool) -> bool:
        """Stores a file; returns False and stores nothing if `exclusive` and the path exists."""
        request = coordinator_pb2.PutObjectRequest(path=path, data=data, exclusive=exclusive)
        return self._wait(self._coordinator.put_object(request, timeout_s=_TIMEOUT_S)).written

    def get(self, path: str) -> bytes | None:
        """Returns the content of a file; None if there is no such file."""
        request = coordinator_pb2.GetObjectRequest(path=path)
        found = self._wait(self._coordinator.get_object(request, timeout_s=_TIMEOUT_S))
        return found.data if found.found else None

    def list(self, prefix: str) -> list[tuple[str, int]]:
        """Returns the paths that start with `prefix`, with their sizes in bytes."""
        request = coordinator_pb2.ListObjectsRequest(prefix=prefix)
        found = self._wait(self._coordinator.list_objects(request, timeout_s=_TIMEOUT_S))
        return list(zip(found.paths, found.sizes, strict=True))

    def delete(self, path: str) -> None:
        """Removes a file; does nothing if it does not exist."""
        request = coordinator_pb2.DeleteObjectRequest(path=path)
        self._wait(self._coordinator.delete_object(request, timeout_s=_TIMEOUT_S))

    def _wait(self, call: Coroutine[None, None, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()


class JobFiles:
    """The storage of one job's files, and a limit of its concurrent transfers."""

    def __init__(
        self,
        root: str,
        settings: JobStorage,
        storage: CheckpointStorage,
        transfers: ThreadPool,
    ) -> None:
        self.root = root
        """URI that relative paths are resolved against."""

        self.settings = settings
        self.storage = storage
        self._transfers = transfers
        self._turns = asyncio.Semaphore(settings.transfer_threads or TRANSFER_THREADS)

    async def transfer(self, job: Callable[..., _T], *args: Any) -> _T:
        """Runs a transfer as soon as the limit allows; a cancelled caller does not stop it."""
        await self._turns.acquire()
        try:
            running = asyncio.ensure_future(self._transfers.run(job, *args))
        except BaseException:
            self._turns.release()
            raise
        running.add_done_callback(self._ended)
        return await asyncio.shield(running)

    def _ended(self, running: asyncio.Future[Any]) -> None:
        self._turns.release()
        if not running.cancelled():
            # The caller may be cancelled: an exception nobody retrieves would be logged.
            running.exception()


class FileSystems:
    """Cache of opened storages, by location and options. For the event loop only."""

    def __init__(self, threads: ThreadPool, transfers: ThreadPool, objects: ObjectStore) -> None:
        self._threads = threads
        self._transfers = transfers
        self._objects = objects
        self._storages: dict[tuple[str, str, bool], CheckpointStorage] = {}

    async def of_job(self, settings: JobStorage) -> JobFiles | None:
        """Returns the files of a job; None if it keeps no durable copy."""
        return await self.at(settings.root, settings) if settings.root else None

    async def at(self, root: str, settings: JobStorage) -> JobFiles:
        """Returns the files below any root, opened with the settings of a job."""
        key = (_place(root), settings.file_system_options, settings.fsync)
        if key not in self._storages:
            options = json_settings(
                settings.file_system_options, f"the file system options of {settings.root}"
            )
            # On a thread: importing a file system's package may take a second.
            self._storages[key] = await self._threads.run(
                storage_of, root, options, fsync=settings.fsync, objects=self._objects
            )
        return JobFiles(root, settings, self._storages[key], self._transfers)


def _place(root: str) -> str:
    """Returns the scheme and host or bucket of a URI; empty for the local file system."""
    found = _PLACE.match(root)
    return found[0] if found else ""
