"""Completed checkpoints and savepoints, found by the URI a person gives."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.file_systems.storage import MissingFileError, join
from queryable_state.server.checkpoint.state_root import BrokenCheckpoint, StateRoot, read_savepoint
from queryable_state.wire.errors import CheckpointError, CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.internal.v1.checkpoint_pb2 import CheckpointMetadata, StoredFile
    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage


@dataclass(frozen=True, slots=True)
class Completed:
    """One checkpoint or savepoint, and where its files are."""

    uri: str
    """Of its folder."""

    root: str
    """URI that its relative paths are below."""

    metadata: CheckpointMetadata = field(repr=False)

    @property
    def name(self) -> str:
        """The last part of its URI."""
        return self.uri.rpartition("/")[2]

    def files(self) -> Iterator[StoredFile]:
        """Every file of every subtask."""
        for operator in self.metadata.operators:
            for part in operator.ranges:
                yield from part.files

    @property
    def size_bytes(self) -> int:
        """Bytes of all its files."""
        return sum(file.size_bytes for file in self.files())

    @property
    def new_bytes(self) -> int:
        """Bytes written for it; the others were there."""
        return sum(part.new_bytes for each in self.metadata.operators for part in each.ranges)


@dataclass(frozen=True, slots=True)
class Found:
    """What there is at a URI."""

    completed: tuple[Completed, ...]
    """Newest first."""

    broken: tuple[BrokenCheckpoint, ...] = ()
    root: StateRoot | None = None
    """Where the URI is that of a state root."""


def find(uri: str, storage: CheckpointStorage) -> Found:
    """The checkpoints of a state root, or the one checkpoint or savepoint.

    CheckpointError where there is none of these, CorruptDataError where the one that is meant
    cannot be read.
    """
    uri = uri.rstrip("/")
    try:
        return Found((_one(uri, storage),))
    except MissingFileError as missing:
        root = StateRoot(uri, storage)
        if root.exists():
            complete, broken = root.survey()
            completed = (
                Completed(
                    root.path(layout.checkpoint_folder(metadata.checkpoint_id)), uri, metadata
                )
                for metadata in complete
            )
            return Found(tuple(completed), tuple(broken), root)
        raise _nothing(uri, storage, missing) from None


def _one(uri: str, storage: CheckpointStorage) -> Completed:
    metadata = read_savepoint(uri, storage)
    if metadata.savepoint:
        return Completed(uri, uri, metadata)
    root, _, name = uri.rpartition("/")
    if layout.checkpoint_id(name) != metadata.checkpoint_id:
        raise CorruptDataError(
            f"{uri} holds checkpoint {metadata.checkpoint_id}: a checkpoint is used where it was "
            "written, beside the files it shares with others; only savepoints may be moved"
        )
    return Completed(uri, root, metadata)


def _nothing(uri: str, storage: CheckpointStorage, missing: MissingFileError) -> CheckpointError:
    names = storage.list(uri)
    if not names:
        return CheckpointError(
            f"there is nothing at {uri}: give the URI of a state root (the job's folder in the "
            "directory for checkpoints), of one checkpoint in it (chk-<n>), or of a savepoint"
        )
    roots = [name for name in names if StateRoot(join(uri, name), storage).exists()]
    savepoints = [name for name in names if storage.exists(join(uri, name, layout.METADATA))]
    if roots or savepoints:
        return CheckpointError(
            f"{uri} is a directory of {', '.join((*roots, *savepoints))}: name one"
        )
    return CheckpointError(missing.message)
