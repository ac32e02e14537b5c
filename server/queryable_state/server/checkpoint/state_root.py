"""One job's durable root: epochs, registrations, manifests, checkpoints, and what may go."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.internal.v1.checkpoint_pb2 import (
        CheckpointMetadata,
        Manifest,
        RootRegistrations,
    )
    from queryable_state.server.checkpoint.storage import CheckpointStorage


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """What retention took away."""

    checkpoints: tuple[int, ...] = ()
    """Ids of the checkpoints."""

    shared_files: int = 0
    batches: int = 0
    """Folders of changelogs."""


@dataclass(frozen=True, slots=True)
class BrokenCheckpoint:
    """A folder of a checkpoint that cannot be used."""

    path: str
    """URI of the folder."""

    problem: str


class StateRoot:
    """What is kept of one job under a URI.

    Blocking, usable from every thread; it keeps nothing in memory. Several drivers may hold one
    root: only what carries a newer epoch, or a file's exclusive creation, tells them apart.
    """

    def __init__(self, uri: str, storage: CheckpointStorage) -> None:
        self.uri = uri.rstrip("/")
        self.storage = storage

    def path(self, relative: str) -> str:
        """URI of a file by its path as metadata and manifests have it."""
        raise NotImplementedError

    def exists(self) -> bool:
        """Whether a job ever kept state here."""
        raise NotImplementedError

    def allocate_epoch(self, run_id: bytes) -> int:
        """Takes the next epoch for a run, greater than every one before; nobody else gets it."""
        raise NotImplementedError

    def newest_epoch(self) -> int:
        """The greatest epoch taken; 0: none."""
        raise NotImplementedError

    def check_epoch(self, epoch: int) -> None:
        """SupersededError (FENCED) where a newer one is taken."""
        raise NotImplementedError

    def registrations(self) -> RootRegistrations | None:
        """The newest registrations; None: there are none. CorruptDataError where unreadable."""
        raise NotImplementedError

    def write_registrations(self, epoch: int, record: RootRegistrations) -> None:
        """Writes registrations as the newest ones of an epoch."""
        raise NotImplementedError

    def manifest(self, batch: int) -> Manifest | None:
        """The manifest of a batch, of the highest epoch; None: there is none."""
        raise NotImplementedError

    def manifests(self, after: int) -> list[Manifest]:
        """The manifests of the batches after one, by batch."""
        raise NotImplementedError

    def write_manifest(self, manifest: Manifest) -> None:
        """Writes the manifest of a batch and epoch; the same again changes nothing."""
        raise NotImplementedError

    def batches(self) -> list[int]:
        """Batches that have changelogs here, ascending."""
        raise NotImplementedError

    def checkpoints(self) -> list[CheckpointMetadata]:
        """Complete checkpoints, newest first; unreadable ones are logged and left out."""
        raise NotImplementedError

    def broken_checkpoints(self) -> list[BrokenCheckpoint]:
        """Checkpoints whose metadata is missing or cannot be read."""
        raise NotImplementedError

    def next_checkpoint_id(self) -> int:
        """An id greater than that of every checkpoint that was begun here."""
        raise NotImplementedError

    def write_checkpoint(self, metadata: CheckpointMetadata) -> None:
        """Completes a checkpoint: all its files are there."""
        raise NotImplementedError

    def retain(
        self, checkpoints: Sequence[CheckpointMetadata], keep: int, *, epoch: int
    ) -> Removed:
        """Keeps the newest `keep` of the complete checkpoints, and all that any of them needs.

        Removes older checkpoints' folders, shared files that no kept one names and an older one
        did, and the changelogs of batches up to the oldest kept version. SupersededError
        (FENCED), before anything is removed, where a newer epoch is taken.
        """
        raise NotImplementedError

    def delete(self) -> None:
        """Removes all of it but `spark/`."""
        raise NotImplementedError


def read_savepoint(uri: str, storage: CheckpointStorage) -> CheckpointMetadata:
    """The metadata of a savepoint's folder, or of one `chk-<n>`.

    CheckpointError where there is none, CorruptDataError where it cannot be read.
    """
    raise NotImplementedError
