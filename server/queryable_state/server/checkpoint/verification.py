"""Whether the files of a checkpoint are there, and are what was written."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.file_systems.storage import MissingFileError, checksum, join
from queryable_state.wire.errors import CheckpointError
from queryable_state.wire.keys.key_groups import key_group_range

if TYPE_CHECKING:
    from queryable_state.internal.v1.checkpoint_pb2 import (
        ChangelogFile,
        OperatorSnapshot,
        StoredFile,
    )
    from queryable_state.server.checkpoint.completed import Completed
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
