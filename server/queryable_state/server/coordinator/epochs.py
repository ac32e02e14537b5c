"""Run epochs: the half of a token that grows with every run of a query."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Protocol

from queryable_state.wire.errors import CorruptDataError, RetryLaterError

if TYPE_CHECKING:
    from pathlib import Path


class EpochStore(Protocol):
    """Gives each run of a query a number above those of all runs before it."""

    def allocate(self, query_id: bytes, run_id: bytes) -> int:
        """A new epoch, 1 or more; durable, where the store is, before it returns.

        Called once a run, from one thread at a time.
        """
        ...


class MemoryEpochStore:
    """Epochs that grow as long as the driver lives, for state that lives no longer."""

    def __init__(self) -> None:
        self._newest: dict[bytes, int] = {}

    def allocate(self, query_id: bytes, run_id: bytes) -> int:
        """The next epoch of this driver."""
        epoch = self._newest.get(query_id, 0) + 1
        self._newest[query_id] = epoch
        return epoch


class DirectoryEpochStore:
    """Epochs as files `<directory>/<query id>/<epoch>`, each created by one driver alone.

    Exclusive creation makes an epoch belong to one run even while the driver
    before is still dying. The file holds the run's id, for people.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def allocate(self, query_id: bytes, run_id: bytes) -> int:
        """The next epoch over all drivers that use the directory."""
        folder = self._directory / query_id.hex()
        try:
            folder.mkdir(parents=True, exist_ok=True)
            epoch = max((_epoch_of(path) for path in folder.iterdir()), default=0)
            while True:
                epoch += 1
                try:
                    descriptor = os.open(folder / str(epoch), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
                except FileExistsError:
                    continue
                with os.fdopen(descriptor, "w") as file:
                    file.write(run_id.hex())
                    file.flush()
                    os.fsync(file.fileno())
                _sync_folder(folder)
                return epoch
        except OSError as failure:
            raise RetryLaterError(
                f"no run epoch could be written to {folder}: {failure}; the folder must be "
                "writable by the driver",
                retry_after_ms=1000,
            ) from failure


class Epochs:
    """The epoch of each run seen by this coordinator, one allocation a run. Thread-safe."""

    def __init__(self, store: EpochStore) -> None:
        self._store = store
        # Apart from the coordinator's lock, because allocation is I/O.
        self._lock = threading.Lock()
        self._epochs: dict[tuple[bytes, bytes], int] = {}

    def knows(self, query_id: bytes, run_id: bytes) -> bool:
        """Whether the run has its epoch."""
        with self._lock:
            return (query_id, run_id) in self._epochs

    def of(self, query_id: bytes, run_id: bytes) -> int:
        """The run's epoch, allocated when first asked for."""
        with self._lock:
            epoch = self._epochs.get((query_id, run_id))
            if epoch is None:
                epoch = self._store.allocate(query_id, run_id)
                self._epochs[query_id, run_id] = epoch
            return epoch

    def forget(self, query_id: bytes) -> None:
        """Forgets the runs of a dropped query; its next one still gets a higher epoch."""
        with self._lock:
            self._epochs = {run: epoch for run, epoch in self._epochs.items() if run[0] != query_id}


def _epoch_of(path: Path) -> int:
    if not (path.name.isascii() and path.name.isdigit()):
        raise CorruptDataError(f"{path} is not a run epoch: its folder belongs to the coordinator")
    return int(path.name)


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
