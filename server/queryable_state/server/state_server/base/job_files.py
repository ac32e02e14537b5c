"""The durable files of jobs, as this server reaches them."""

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
"""Files a job reads or writes at once, unless it says otherwise."""

# Up to the host or bucket: what a file system is opened for.
_PLACE = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:(?://[^/]*)?")

_T = TypeVar("_T")

_TIMEOUT_S = 60.0


class DriverObjects:
    """An `ObjectStore` over the coordinator's link.

    Called on any thread but the loop's, which makes the calls.
    """

    def __init__(self, link: CoordinatorClient, loop: asyncio.AbstractEventLoop) -> None:
        self._link = link
        self._loop = loop

    def put(self, path: str, data: bytes, exclusive: bool) -> bool:
        """Stores a file; False, and nothing stored, where `exclusive` and the path is taken."""
        request = coordinator_pb2.PutObjectRequest(path=path, data=data, exclusive=exclusive)
        return self._wait(self._link.put_object(request, timeout_s=_TIMEOUT_S)).written

    def get(self, path: str) -> bytes | None:
        """The file; None: there is none."""
        request = coordinator_pb2.GetObjectRequest(path=path)
        found = self._wait(self._link.get_object(request, timeout_s=_TIMEOUT_S))
        return found.data if found.found else None

    def list(self, prefix: str) -> list[tuple[str, int]]:
        """Paths that start with `prefix`, with their sizes."""
        request = coordinator_pb2.ListObjectsRequest(prefix=prefix)
        found = self._wait(self._link.list_objects(request, timeout_s=_TIMEOUT_S))
        return list(zip(found.paths, found.sizes, strict=True))

    def delete(self, path: str) -> None:
        """Removes a file, if it is there."""
        request = coordinator_pb2.DeleteObjectRequest(path=path)
        self._wait(self._link.delete_object(request, timeout_s=_TIMEOUT_S))

    def _wait(self, call: Coroutine[None, None, _T]) -> _T:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result()


class JobFiles:
    """Where the files of one job are kept, and how many of them move at once."""

    def __init__(
        self,
        root: str,
        settings: JobStorage,
        storage: CheckpointStorage,
        transfers: ThreadPool,
    ) -> None:
        self.root = root
        """URI of the root its paths are under."""

        self.settings = settings
        self.storage = storage
        self._transfers = transfers
        self._turns = asyncio.Semaphore(settings.transfer_threads or TRANSFER_THREADS)

    async def transfer(self, job: Callable[..., _T], *args: Any) -> _T:
        """Runs a job that moves a file, in its turn; it ends its turn even if nobody waits."""
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
            # Retrieved here: who waited may have been cancelled before the failure.
            running.exception()


class FileSystems:
    """The storages this server has opened, by what they were opened with. Event loop only."""

    def __init__(self, threads: ThreadPool, transfers: ThreadPool, objects: ObjectStore) -> None:
        self._threads = threads
        self._transfers = transfers
        self._objects = objects
        self._storages: dict[tuple[str, str, bool], CheckpointStorage] = {}

    async def of_job(self, settings: JobStorage) -> JobFiles | None:
        """The files of a job; None: it keeps no durable copy."""
        return await self.at(settings.root, settings) if settings.root else None

    async def at(self, root: str, settings: JobStorage) -> JobFiles:
        """Files under any root, reached as those of the job with these settings are."""
        key = (_place(root), settings.file_system_options, settings.fsync)
        if key not in self._storages:
            options = json_settings(
                settings.file_system_options, f"the file system options of {settings.root}"
            )
            # On a thread: a file system's package may take a second to be imported.
            self._storages[key] = await self._threads.run(
                storage_of, root, options, fsync=settings.fsync, objects=self._objects
            )
        return JobFiles(root, settings, self._storages[key], self._transfers)


def _place(root: str) -> str:
    """What tells file systems apart; empty: the local one."""
    found = _PLACE.match(root)
    return found[0] if found else ""
