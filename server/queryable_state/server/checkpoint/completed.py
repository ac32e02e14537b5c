"""Completed checkpoints and savepoints at a URI, and their verification."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.file_systems.storage import MissingFileError, checksum, join
from queryable_state.server.checkpoint.state_root import (
    BrokenCheckpoint,
    StateRoot,
    read_savepoint,
    root_of_files,
)
from queryable_state.wire.errors import CheckpointError
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
    """The problems that prevent a restore of a checkpoint; empty if it is intact.

    Compares sizes with the metadata; with `checksums` it reads every byte. Raises
    RetryLaterError if the storage does not answer now.
    """
    found = [problem for each in completed.metadata.operators for problem in _uncovered(each)]
    # Each file is checked once, also if several subtasks share it.
    files = list({file.path or id(file): file for file in completed.files()}.values())
    with ThreadPoolExecutor(_READERS, thread_name_prefix="verification") as readers:
        answers = readers.map(
            lambda file: _problem(file, completed, storage, checksums=checksums), files
        )
        found += [problem for problem in answers if problem]
    if completed.metadata.savepoint and not storage.list(join(completed.root, layout.SPARK)):
        found.append(
            f"{join(completed.root, layout.SPARK)} is missing: no job can start from the savepoint"
        )
    return found


def _uncovered(operator: OperatorSnapshot) -> list[str]:
    """Problems of subtasks that the metadata does not name."""
    expected = [
        key_group_range(index, operator.parallelism, operator.max_parallelism)
        for index in range(operator.parallelism)
    ]
    present = {(part.first_key_group, part.last_key_group) for part in operator.ranges}
    return [
        f"operator {operator.uid!r} has no state of key groups {first} to {last}"
        for first, last in expected
        if (first, last) not in present
    ]


def _problem(
    file: StoredFile, completed: Completed, storage: CheckpointStorage, *, checksums: bool
) -> str:
    if not file.path:
        intact = len(file.inlined) == file.size_bytes and checksum(file.inlined) == file.checksum
        return "" if intact else f"{file.name} in {completed.uri} fails its checksum"
    return file_problem(
        layout.resolve(completed.root, file.path), file, storage, checksums=checksums
    )


def file_problem(
    path: str, file: StoredFile | ChangelogFile, storage: CheckpointStorage, *, checksums: bool
) -> str:
    """Compares the file at a path with its description; returns the problem, empty if none."""
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
    """A completed checkpoint or savepoint."""

    uri: str
    """URI of its folder."""

    root: str
    """URI to which its paths are relative."""

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
        """Bytes written for it; earlier checkpoints wrote the others."""
        return sum(part.new_bytes for each in self.metadata.operators for part in each.ranges)


@dataclass(frozen=True, slots=True)
class Found:
    """The checkpoints at a URI."""

    completed: tuple[Completed, ...]
    """Newest first."""

    broken: tuple[BrokenCheckpoint, ...] = ()
    root: StateRoot | None = None
    """The state root if the URI is one."""


def find(uri: str, storage: CheckpointStorage) -> Found:
    """Finds the checkpoints of a state root, or the one checkpoint or savepoint, at a URI.

    Raises CheckpointError if there is none, and CorruptDataError if the one at the URI is
    damaged.
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
        raise _not_found(uri, storage, missing) from None


def _one(uri: str, storage: CheckpointStorage) -> Completed:
    metadata = read_savepoint(uri, storage)
    return Completed(uri, root_of_files(uri, metadata), metadata)


def _not_found(uri: str, storage: CheckpointStorage, missing: MissingFileError) -> CheckpointError:
    names = storage.list(uri)
    if not names:
        return CheckpointError(
            f"there is nothing at {uri}: give the URI of a state root (the job's folder in the "
            "checkpoint directory), of one checkpoint in it (chk-<n>), or of a savepoint"
        )
    roots = [name for name in names if StateRoot(join(uri, name), storage).exists()]
    savepoints = [name for name in names if storage.exists(join(uri, name, layout.METADATA))]
    if roots or savepoints:
        return CheckpointError(
            f"{uri} is a directory of {', '.join((*roots, *savepoints))}: name one"
        )
    return CheckpointError(missing.message)
