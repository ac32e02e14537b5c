"""Endpoint files of one driver: in the roots of its jobs and in folders of the application."""

from __future__ import annotations

import logging
import threading
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint.endpoint_file import (
    Endpoint,
    endpoint_uri,
    remove_endpoint,
    write_endpoint,
)
from queryable_state.server.checkpoint.file_systems.storage import DRIVER_SCHEME
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage

_log = logging.getLogger(__name__)


class EndpointFiles:
    """Writes the endpoint of this driver into folders, and removes it at the end. Thread-safe.

    A folder that cannot be written is logged, and the job goes on: only proxies that should find
    the driver there miss it. `driver:` folders get no file.
    """

    def __init__(
        self, application: str, secret: str, wall_ms: Callable[[], int], *, enabled: bool = True
    ) -> None:
        """Unless `enabled`, nothing is written."""
        self._application = application
        self._secret = secret
        self._wall_ms = wall_ms
        self._enabled = enabled
        self._lock = threading.Lock()
        self._endpoint: Endpoint | None = None
        self._written: dict[str, CheckpointStorage] = {}

    def open(self, address: str, *, tls: bool = False) -> None:
        """Sets HOST:PORT of the coordinator; files are written from now on."""
        with self._lock:
            self._endpoint = Endpoint(
                application=self._application,
                coordinators=(address,),
                secret=self._secret,
                written_ms=self._wall_ms(),
                tls=tls,
            )

    def publish(self, folder: str, storage: CheckpointStorage) -> None:
        """Writes the file of a folder, which may hold that of an earlier driver. I/O."""
        with self._lock:
            endpoint = self._endpoint
            if endpoint is None or not self._enabled or folder.startswith(DRIVER_SCHEME):
                return
            self._written[folder] = storage
        try:
            write_endpoint(folder, storage, endpoint)
        except QueryableStateError as problem:
            _log.warning(
                "proxies started with --endpoint %s cannot find this driver: %s", folder, problem
            )
        else:
            _log.info("proxies find this driver by %s", endpoint_uri(folder))

    def close(self) -> None:
        """Removes the files that are still of this driver. I/O; idempotent."""
        with self._lock:
            endpoint, self._endpoint = self._endpoint, None
            written, self._written = self._written, {}
        if endpoint is None:
            return
        for folder, storage in written.items():
            try:
                remove_endpoint(folder, storage, endpoint)
            except QueryableStateError as problem:
                _log.warning("%s stays: %s", endpoint_uri(folder), problem)
