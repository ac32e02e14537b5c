"""Completed checkpoints and savepoints, found by the URI a person gives."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.file_systems.storage import MissingFileError, checksum, join
from queryable_state.server.checkpoint.state_root import BrokenCheckpoint, StateRoot, read_savepoint
from queryable_state.wire.errors import CheckpointError, CorruptDataError
from queryable_state.wire.keys.key_groups import key_group_range

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.internal.v1.checkpoint_pb2 import (
        ChangelogFile,
        CheckpointMetadata,
        OperatorSnapshot,
        StoredFile,
    )
    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage


_READERS = 4


def problems_of(
    completed: Completed, storage: CheckpointStorage, *, checksums: bool = False
) -> list[str]:
    """What keeps a checkpoint from being restored; nothing: it is intact.

    Sizes are held against the metadata; with `checksums` every byte is read. RetryLaterError
    where the storage does not answer now.
    """
    found = [problem for each in completed.metadata.operators for problem in _uncovered(each)]
    # A file of several subtasks is looked at once.
    files = list({file.path or id(file): file for file in completed.files()}.values())
    with ThreadPoolExecutor(_READERS, thread_name_prefix="verification") as readers:
        answers = readers.map(
            lambda file: _problem(file, completed, storage, checksums=checksums), files
        )
        found += [problem for problem in answers if problem]
    if completed.metadata.savepoint and not storage.list(join(completed.root, layout.SPARK)):
        found.append(
            f"{join(completed.root, layout.SPARK)} is missing: no job can be started from it"
        )
    return found


def _uncovered(operator: OperatorSnapshot) -> list[str]:
    """Subtasks the metadata does not name."""
    wanted = [
        key_group_range(index, operator.parallelism, operator.max_parallelism)
        for index in range(operator.parallelism)
    ]
    there = {(part.first_key_group, part.last_key_group) for part in operator.ranges}
    return [
        f"operator {operator.uid!r} has no state of key groups {first} to {last}"
        for first, last in wanted
        if (first, last) not in there
    ]


def _problem(
    file: StoredFile, completed: Completed, storage: CheckpointStorage, *, checksums: bool
) -> str:
    if not file.path:
        whole = len(file.inlined) == file.size_bytes and checksum(file.inlined) == file.checksum
        return "" if whole else f"{file.name} in {completed.uri} fails its checksum"
    return file_problem(
        layout.resolve(completed.root, file.path), file, storage, checksums=checksums
    )


def file_problem(
    path: str, file: StoredFile | ChangelogFile, storage: CheckpointStorage, *, checksums: bool
) -> str:
    """What is wrong with the file at a path, as it was written; empty: nothing."""
    try:
        if not checksums:
            size_bytes = storage.size(path)
        else:
            data = storage.read(path)
            size_bytes = len(data)
            if size_bytes == file.size_bytes and checksum(data) != file.checksum:
                return f"{path} fails its checksum"
    except MissingFileError:
        return f"{path} is missing"
    except CheckpointError as problem:
        return problem.message
    if size_bytes != file.size_bytes:
        return f"{path} has {size_bytes} bytes instead of {file.size_bytes}"
    return ""


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
