"""Files in the memory of the driver, as the threads of this server reach them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from queryable_state.internal.v1 import coordinator_pb2

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from queryable_state.server.coordinator_client import CoordinatorClient

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
