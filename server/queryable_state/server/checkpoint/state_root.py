"""One job's durable root: epochs, registrations, manifests, checkpoints, and what may go."""

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
from queryable_state.server.checkpoint.retention import Removed, Retention
from queryable_state.wire.errors import CheckpointError, CorruptDataError, Reason, SupersededError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage

_log = logging.getLogger(__name__)

_ATTEMPTS = 100
_BEFORE_ANY_RUN = 0
_EPOCH = re.compile(r"[0-9]+")
_REGISTRATIONS = re.compile(r"([0-9]+)-([0-9]+)")


@dataclass(frozen=True, slots=True)
class BrokenCheckpoint:
    """A folder of a checkpoint that cannot be used."""

    path: str
    """URI of the folder."""

    problem: str

    begun: bool = False
    """Whether it only lacks its metadata: it is being written, or was given up."""


class StateRoot:
    """What is kept of one job under a URI.

    Blocking, usable from every thread; it keeps nothing in memory. Several drivers may hold one
    root: only what carries a newer epoch, or a file's exclusive creation, tells them apart.
    """

    def __init__(self, uri: str, storage: CheckpointStorage) -> None:
        self.uri = uri.rstrip("/")
        self.storage = storage
        self._manifests = ManifestFiles(self.uri, storage)

    def path(self, relative: str) -> str:
        """URI of a file by its path as metadata and manifests have it."""
        return layout.resolve(self.uri, relative)

    def exists(self) -> bool:
        """Whether a job ever kept state here: registrations, changelogs or checkpoints."""
        return any(
            name in (layout.REGISTRATIONS, layout.CHANGELOG)
            or layout.checkpoint_id(name) is not None
            for name in self.storage.list(self.uri)
        )

    def allocate_epoch(self, run_id: bytes) -> int:
        """Takes the next epoch for a run, greater than every one before; nobody else gets it."""
        content = run_id.hex().encode()
        epoch = self.newest_epoch()
        for _ in range(_ATTEMPTS):
            epoch += 1
            path = self.path(layout.epoch_file(epoch))
            if self.storage.create(path, content):
                return epoch
            # A request that was repeated after its answer got lost finds its own file.
            if content and self.storage.read(path) == content:
                return epoch
        raise CheckpointError(
            f"no epoch could be taken in {self.uri}: {_ATTEMPTS} were taken by others meanwhile: "
            "stop the other drivers that run this job"
        )

    def newest_epoch(self) -> int:
        """The greatest epoch taken; 0: none."""
        names = self.storage.list(self.path(layout.EPOCHS))
        return max((int(name) for name in names if _EPOCH.fullmatch(name)), default=0)

    def has_newer_epoch(self, epoch: int) -> bool:
        """Whether an epoch greater than a taken one is taken; looks at one file only.

        No epoch is left out: where any greater one is taken, the next one is.
        """
        return self.storage.exists(self.path(layout.epoch_file(epoch + 1)))

    def check_epoch(self, epoch: int) -> None:
        """SupersededError (FENCED) where a newer one is taken."""
        if self.has_newer_epoch(epoch):
            raise SupersededError(
                f"epoch {epoch + 1} is taken in {self.uri}, this run is of epoch {epoch}: another "
                "run of the job has taken over, and this one must stop",
                reason=Reason.FENCED,
            )

    def registrations(self) -> RootRegistrations | None:
        """The newest registrations; None: there are none. CorruptDataError where unreadable."""
        return self.newest_registrations()[1]

    def newest_registrations(self) -> tuple[str, RootRegistrations | None]:
        """File name and content of the newest registrations; empty and None: there are none.

        CorruptDataError where they cannot be read.
        """
        names = self._registration_names()
        if not names:
            return "", None
        name = names[-1][2]
        path = self.path(f"{layout.REGISTRATIONS}/{name}")
        record = read_message(RootRegistrations, self.storage.read(path), path)
        check_format(record.format_version, path)
        return name, record

    def write_registrations(self, epoch: int, record: RootRegistrations) -> str:
        """Writes registrations as the newest ones of an epoch; returns their file name."""
        data = write_message(record)
        sequence = max(
            (sequence for of_epoch, sequence, _ in self._registration_names() if of_epoch == epoch),
            default=0,
        )
        for _ in range(_ATTEMPTS):
            sequence += 1
            name = layout.registrations_file(epoch, sequence)
            path = self.path(name)
            if self.storage.create(path, data) or self.storage.read(path) == data:
                return name.rpartition("/")[2]
        raise CheckpointError(f"the registrations of {self.uri} are written by others all the time")

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
        """Makes the job of this root, which is new, begin behind a savepoint of a batch.

        The state of operators that are `left_behind`, by uid, is not the job's; with
        `allow_non_restored_state` its operators may lack states they have in the savepoint.
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
        """The manifest of a batch, of the highest epoch; None: there is none."""
        return self._manifests.of(batch)

    def has_manifest(self, batch: int) -> bool:
        """Whether there is a manifest of a batch, readable or not."""
        return self._manifests.newest_epoch(batch) is not None

    def manifests(self, after: int) -> list[Manifest]:
        """The manifests of the batches after one, by batch.

        Damaged ones are logged and left out, and so are those that go while this reads.
        """
        return self._manifests.all(after)

    def write_manifest(self, manifest: Manifest) -> None:
        """Writes the manifest of a batch and epoch; the same again changes nothing."""
        self._manifests.write(manifest)

    def batches(self) -> list[int]:
        """Batches that have changelogs here, ascending."""
        names = self.storage.list(self.path(layout.CHANGELOG))
        return sorted(int(name) for name in names if layout.is_number(name))

    def checkpoints(self) -> list[CheckpointMetadata]:
        """Complete checkpoints, newest first; unreadable ones are logged and left out."""
        complete, broken = self.survey()
        for each in broken:
            # One that is being written is no reason to worry.
            level = logging.INFO if each.begun else logging.WARNING
            _log.log(level, "the checkpoint %s cannot be used: %s", each.path, each.problem)
        return complete

    def broken_checkpoints(self) -> list[BrokenCheckpoint]:
        """Checkpoints whose metadata is missing or cannot be read."""
        return self.survey()[1]

    def survey(self) -> tuple[list[CheckpointMetadata], list[BrokenCheckpoint]]:
        """Complete checkpoints, newest first, and those that are not, in the same order."""
        complete, broken = [], []
        for checkpoint in self._checkpoint_ids():
            folder = self.path(layout.checkpoint_folder(checkpoint))
            try:
                metadata = read_savepoint(folder, self.storage)
                if metadata.checkpoint_id != checkpoint:
                    raise CorruptDataError(f"it is checkpoint {metadata.checkpoint_id}")
                complete.append(metadata)
            except MissingFileError:
                broken.append(BrokenCheckpoint(folder, "it was not completed", begun=True))
            except CorruptDataError as problem:
                broken.append(BrokenCheckpoint(folder, problem.message))
        return complete, broken

    def next_checkpoint_id(self) -> int:
        """An id greater than that of every checkpoint that was begun here."""
        return 1 + max(self._checkpoint_ids(), default=0)

    def write_checkpoint(self, metadata: CheckpointMetadata) -> None:
        """Completes a checkpoint: all its files are there.

        SupersededError (FENCED) where a newer epoch is taken, or another run completed a
        checkpoint of this id.
        """
        self.check_epoch(metadata.run_epoch)
        data = write_message(metadata)
        folder = layout.checkpoint_folder(metadata.checkpoint_id)
        path = self.path(layout.metadata_file(folder))
        if not self.storage.create(path, data) and self.storage.read(path) != data:
            raise SupersededError(
                f"{path} was completed by another run of the job: this one must stop",
                reason=Reason.FENCED,
            )

    def retain(
        self, checkpoints: Sequence[CheckpointMetadata], keep: int, *, epoch: int
    ) -> Removed:
        """Keeps the newest `keep` of the complete checkpoints, and all that any of them needs.

        Removes older checkpoints' folders, shared files that no kept one names and an older one
        did, and the changelogs of batches up to the oldest kept version. What was begun and never
        completed before the newest goes, too. SupersededError (FENCED), before anything is
        removed, where a newer epoch is taken.
        """
        known = {
            metadata.checkpoint_id: metadata for metadata in (*self.checkpoints(), *checkpoints)
        }
        retention = Retention(self.uri, self.storage, known.values(), keep)
        self.check_epoch(epoch)
        return retention.remove(self._checkpoint_ids(), self.batches())

    def delete(self) -> None:
        """Removes all of it but `spark/`. The epochs, which fence, go last."""
        for checkpoint in self._checkpoint_ids():
            folder = layout.checkpoint_folder(checkpoint)
            self.storage.delete(self.path(layout.metadata_file(folder)))
            self.storage.delete_tree(self.path(folder))
        for folder in (layout.CHANGELOG, layout.SHARED, layout.REGISTRATIONS, layout.EPOCHS):
            self.storage.delete_tree(self.path(folder))

    def _checkpoint_ids(self) -> list[int]:
        ids = map(layout.checkpoint_id, self.storage.list(self.uri))
        return sorted((each for each in ids if each is not None), reverse=True)

    def _registration_names(self) -> list[tuple[int, int, str]]:
        names = self.storage.list(self.path(layout.REGISTRATIONS))
        found = [_REGISTRATIONS.fullmatch(name) for name in names]
        return sorted((int(each[1]), int(each[2]), each[0]) for each in found if each is not None)


def registrations_order(name: str) -> tuple[int, int]:
    """Epoch and sequence of a registrations file; those of no file come before all."""
    found = _REGISTRATIONS.fullmatch(name)
    return (-1, -1) if found is None else (int(found[1]), int(found[2]))


def read_savepoint(uri: str, storage: CheckpointStorage) -> CheckpointMetadata:
    """The metadata of a savepoint's folder, or of one `chk-<n>`.

    MissingFileError where there is none, CorruptDataError where it cannot be read.
    """
    path = join(uri, layout.METADATA)
    try:
        data = storage.read(path)
    except MissingFileError:
        names = [name for name in storage.list(uri) if layout.checkpoint_id(name) is not None]
        advice = (
            f"it is a state root: name one of its checkpoints, {', '.join(names)}"
            if names
            else f"{path} is not there, which is written last: name another one"
        )
        raise MissingFileError(f"{uri} is no completed checkpoint or savepoint: {advice}") from None
    metadata = read_message(CheckpointMetadata, data, path)
    check_format(metadata.format_version, path)
    return metadata
