"""State root: the durable files of one job below a URI."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.internal.v1.checkpoint_pb2 import (
    CheckpointMetadata,
    Manifest,
    RootRegistrations,
)
from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.file_systems.storage import MissingFileError, join
from queryable_state.server.checkpoint.framing import (
    MESSAGE_VERSION,
    check_format,
    read_message,
    write_message,
)
from queryable_state.server.checkpoint.manifest_files import ManifestFiles
from queryable_state.server.checkpoint.registration_files import RegistrationFiles
from queryable_state.server.checkpoint.retention import Removed, Retention
from queryable_state.wire.errors import CheckpointError, CorruptDataError, Reason, SupersededError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage

_log = logging.getLogger(__name__)

_ATTEMPTS = 100
_BEFORE_ANY_RUN = 0
_EPOCH = re.compile(r"[0-9]+")


@dataclass(frozen=True, slots=True)
class BrokenCheckpoint:
    """The folder of a checkpoint that cannot be restored."""

    path: str
    """URI of the folder."""

    problem: str

    begun: bool = False
    """True if only its metadata is missing: it is being written or was abandoned."""


class StateRoot:
    """Epochs, registrations, manifests, changelogs and checkpoints of one job.

    Blocking, usable from every thread; it caches nothing. Several drivers may use one root:
    only a newer epoch, or the exclusive creation of a file, decides between them.
    """

    def __init__(self, uri: str, storage: CheckpointStorage) -> None:
        self.uri = uri.rstrip("/")
        self.storage = storage
        self._manifests = ManifestFiles(self.uri, storage)
        self._registrations = RegistrationFiles(self.uri, storage)

    def path(self, relative: str) -> str:
        """URI of a file by its path in metadata or a manifest."""
        return layout.resolve(self.uri, relative)

    def exists(self) -> bool:
        """True if the root has registrations, changelogs or checkpoints."""
        return any(
            name in (layout.REGISTRATIONS, layout.CHANGELOG)
            or layout.checkpoint_id(name) is not None
            for name in self.storage.list(self.uri)
        )

    def allocate_epoch(self, run_id: bytes) -> int:
        """Takes an epoch for a run: greater than all taken before, and unique."""
        content = run_id.hex().encode()
        epoch = self.newest_epoch()
        for _ in range(_ATTEMPTS):
            epoch += 1
            path = self.path(layout.epoch_file(epoch))
            if self.storage.create(path, content):
                return epoch
            # A request that was retried after its answer got lost finds its own file.
            if content and self.storage.read(path) == content:
                return epoch
        raise CheckpointError(
            f"could not take an epoch in {self.uri}: other runs took {_ATTEMPTS} epochs meanwhile: "
            "stop the other drivers that run this job"
        )

    def newest_epoch(self) -> int:
        """The greatest epoch taken; 0 if there is none."""
        names = self.storage.list(self.path(layout.EPOCHS))
        return max((int(name) for name in names if _EPOCH.fullmatch(name)), default=0)

    def has_newer_epoch(self, epoch: int) -> bool:
        """True if an epoch greater than this taken one is taken; checks one file only.

        Epochs have no gaps: if any greater one is taken, so is the next one.
        """
        return self.storage.exists(self.path(layout.epoch_file(epoch + 1)))

    def check_epoch(self, epoch: int) -> None:
        """Raises SupersededError (FENCED) if a newer epoch is taken."""
        if self.has_newer_epoch(epoch):
            raise SupersededError(
                f"epoch {epoch + 1} is taken in {self.uri}, this run is of epoch {epoch}: another "
                "run of the job has taken over, and this one must stop",
                reason=Reason.FENCED,
            )

    def registrations(self) -> RootRegistrations | None:
        """The newest registrations, None if there are none; raises CorruptDataError if damaged."""
        return self.newest_registrations()[1]

    def newest_registrations(self) -> tuple[str, RootRegistrations | None]:
        """File name and content of the newest registrations; empty and None if there are none.

        Raises CorruptDataError if they cannot be read.
        """
        return self._registrations.newest()

    def write_registrations(self, epoch: int, record: RootRegistrations) -> str:
        """Writes registrations as the newest ones of an epoch; returns their file name."""
        return self._registrations.write(epoch, record)

    def start_from(
        self,
        savepoint: str,
        version: int,
        *,
        job_id: bytes,
        job_name: str,
        left_behind: Iterable[str] = (),
        allow_non_restored_state: bool = False,
    ) -> None:
        """Makes the job of this new root start after a savepoint of batch `version`.

        The job does not restore the operators whose uids are `left_behind`. With
        `allow_non_restored_state` an operator may lack states that it has in the savepoint.
        """
        self.write_registrations(
            _BEFORE_ANY_RUN,
            RootRegistrations(
                format_version=MESSAGE_VERSION,
                job_id=job_id,
                job_name=job_name,
                first_batch=version + 1,
                restored_from=savepoint,
                left_behind=left_behind,
                allow_non_restored_state=allow_non_restored_state,
            ),
        )

    def manifest(self, batch: int) -> Manifest | None:
        """The manifest of a batch by the highest epoch; None if there is none."""
        return self._manifests.of(batch)

    def has_manifest(self, batch: int) -> bool:
        """True if a batch has a manifest, readable or not."""
        return self._manifests.newest_epoch(batch) is not None

    def manifests(self, after: int) -> list[Manifest]:
        """The manifests of all batches after `after`, by batch.

        Logs and skips damaged ones; skips those that are removed during the call.
        """
        return self._manifests.all(after)

    def write_manifest(self, manifest: Manifest) -> None:
        """Writes the manifest of a batch and epoch. Idempotent."""
        self._manifests.write(manifest)

    def batches(self) -> list[int]:
        """Batches with changelogs, ascending."""
        names = self.storage.list(self.path(layout.CHANGELOG))
        return sorted(int(name) for name in names if layout.is_number(name))

    def checkpoints(self) -> list[CheckpointMetadata]:
        """Complete checkpoints, newest first; logs and skips unreadable ones."""
        complete, broken = self.survey()
        for each in broken:
            level = logging.INFO if each.begun else logging.WARNING
            _log.log(level, "checkpoint %s cannot be restored: %s", each.path, each.problem)
        return complete

    def broken_checkpoints(self) -> list[BrokenCheckpoint]:
        """Checkpoints whose metadata is missing or damaged."""
        return self.survey()[1]

    def survey(self) -> tuple[list[CheckpointMetadata], list[BrokenCheckpoint]]:
        """Complete and broken checkpoints, both newest first."""
        complete, broken = [], []
        for checkpoint in self._checkpoint_ids():
            folder = self.path(layout.checkpoint_folder(checkpoint))
            try:
                metadata = read_savepoint(folder, self.storage)
                if metadata.checkpoint_id != checkpoint:
                    raise CorruptDataError(
                        f"its metadata is that of checkpoint {metadata.checkpoint_id}"
                    )
                complete.append(metadata)
            except MissingFileError:
                broken.append(BrokenCheckpoint(folder, "it was not completed", begun=True))
            except CorruptDataError as problem:
                broken.append(BrokenCheckpoint(folder, problem.message))
        return complete, broken

    def next_checkpoint_id(self) -> int:
        """An id greater than that of every checkpoint begun in this root."""
        return 1 + max(self._checkpoint_ids(), default=0)

    def write_checkpoint(self, metadata: CheckpointMetadata) -> None:
        """Completes a checkpoint, whose files are all written.

        Raises SupersededError (FENCED) if a newer epoch is taken, or another run completed a
        checkpoint with this id.
        """
        self.check_epoch(metadata.run_epoch)
        data = write_message(metadata)
        folder = layout.checkpoint_folder(metadata.checkpoint_id)
        path = self.path(layout.metadata_file(folder))
        if not self.storage.create(path, data) and self.storage.read(path) != data:
            raise SupersededError(
                f"another run of the job completed {path}: this run must stop",
                reason=Reason.FENCED,
            )

    def retain(
        self, checkpoints: Sequence[CheckpointMetadata], keep: int, *, epoch: int
    ) -> Removed:
        """Keeps the newest `keep` complete checkpoints and all files that they need.

        Removes the folders of older checkpoints, complete or not, shared files that only
        older checkpoints name, and the changelogs of batches up to the oldest kept version.
        Raises SupersededError (FENCED), before it removes anything, if a newer epoch is taken.
        """
        known = {
            metadata.checkpoint_id: metadata for metadata in (*self.checkpoints(), *checkpoints)
        }
        retention = Retention(self.uri, self.storage, known.values(), keep)
        self.check_epoch(epoch)
        return retention.remove(self._checkpoint_ids(), self.batches())

    def delete(self) -> None:
        """Removes all but `spark/`; the epochs last, because they fence other runs."""
        self.storage.delete(self.path(layout.ENDPOINT))
        for checkpoint in self._checkpoint_ids():
            folder = layout.checkpoint_folder(checkpoint)
            self.storage.delete(self.path(layout.metadata_file(folder)))
            self.storage.delete_tree(self.path(folder))
        for folder in (layout.CHANGELOG, layout.SHARED, layout.REGISTRATIONS, layout.EPOCHS):
            self.storage.delete_tree(self.path(folder))

    def _checkpoint_ids(self) -> list[int]:
        ids = map(layout.checkpoint_id, self.storage.list(self.uri))
        return sorted((each for each in ids if each is not None), reverse=True)


def root_of_files(uri: str, metadata: CheckpointMetadata) -> str:
    """URI to which the paths in the metadata of a savepoint's or checkpoint's folder are relative.

    Raises CorruptDataError if the folder of a checkpoint was moved or renamed.
    """
    if metadata.savepoint:
        return uri
    root, _, name = uri.rpartition("/")
    if layout.checkpoint_id(name) != metadata.checkpoint_id:
        raise CorruptDataError(
            f"{uri} holds checkpoint {metadata.checkpoint_id}: it was moved or renamed. A "
            "checkpoint shares files with others and must stay where it was written; only "
            "savepoints may be moved"
        )
    return root


def read_savepoint(uri: str, storage: CheckpointStorage) -> CheckpointMetadata:
    """Reads the metadata of a savepoint's or checkpoint's folder.

    Raises MissingFileError if there is none, CorruptDataError if it is damaged.
    """
    path = join(uri, layout.METADATA)
    try:
        data = storage.read(path)
    except MissingFileError:
        names = [name for name in storage.list(uri) if layout.checkpoint_id(name) is not None]
        advice = (
            f"it is a state root: name one of its checkpoints, {', '.join(names)}"
            if names
            else f"{path}, which is written last, does not exist: name another one"
        )
        raise MissingFileError(f"{uri} is no completed checkpoint or savepoint: {advice}") from None
    metadata = read_message(CheckpointMetadata, data, path)
    check_format(metadata.format_version, path)
    return metadata
