"""Verification of a state root: registrations, manifests and changelogs of its newest checkpoint.

A job continues from a checkpoint and the changelogs of every batch since, so an intact checkpoint
alone does not mean that the root can be restored.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.completed import file_problem
from queryable_state.server.checkpoint.file_systems.storage import join
from queryable_state.server.checkpoint.registration_files import registrations_order
from queryable_state.server.checkpoint.state_root import read_savepoint
from queryable_state.wire.errors import CheckpointError, CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from queryable_state.internal.v1.checkpoint_pb2 import (
        ChangelogFile,
        CheckpointMetadata,
        Manifest,
        RootRegistrations,
    )
    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage
    from queryable_state.server.checkpoint.state_root import StateRoot

_READERS = 8
_SHOWN = 10


def problems_of_root(
    root: StateRoot,
    intact: Sequence[CheckpointMetadata],
    storage_at: Callable[[str], CheckpointStorage],
    *,
    checksums: bool = False,
) -> list[str]:
    """The problems that prevent a job from continuing after its newest batch; empty if none.

    `intact` are the checkpoints of the root that can be restored, newest first; `storage_at` opens
    the storage of the savepoint from which the job may have started. Compares sizes with the
    manifests; with `checksums` it reads every byte. Raises RetryLaterError if the storage does
    not answer now.
    """
    try:
        name, registrations = root.newest_registrations()
    except CorruptDataError as problem:
        return [f"the registrations cannot be read: {problem.message}"]
    if registrations is None:
        return [f"{root.path(layout.REGISTRATIONS)} has no registrations of the job's states"]
    base = intact[0].version if intact else registrations.first_batch - 1
    manifests = root.manifests(base)
    missing = missing_registrations(root, name, [*intact, *manifests])
    found = [f"{missing} is missing: states may be unknown"] if missing else []
    newest = max((manifest.batch_id for manifest in manifests), default=base)
    found += _missing_manifests(root, manifests, base, max(newest, _newest_commit(root)))
    with ThreadPoolExecutor(_READERS, thread_name_prefix="verification") as readers:
        files = [file for manifest in manifests for file in _distinct(manifest)]
        answers = readers.map(lambda file: _problem(root, file, checksums=checksums), files)
        found += [problem for problem in answers if problem]
    if not intact and registrations.restored_from:
        found += _missing_savepoint(registrations, storage_at(registrations.restored_from))
    return found


def missing_registrations(
    root: StateRoot, name: str, named_by: Sequence[CheckpointMetadata | Manifest]
) -> str:
    """URI of the newest registrations that a checkpoint or manifest names, if it is missing.

    Empty if registrations as new as that exist: `name` are the newest there are.
    """
    newest = max((each.registrations for each in named_by), key=registrations_order, default="")
    if registrations_order(newest) <= registrations_order(name):
        return ""
    return f"{root.path(layout.REGISTRATIONS)}/{newest}"


def _missing_manifests(
    root: StateRoot, manifests: Sequence[Manifest], base: int, newest: int
) -> list[str]:
    """The problem of batches since the newest checkpoint without a readable manifest."""
    present = {manifest.batch_id for manifest in manifests}
    missing = [batch for batch in range(base + 1, newest + 1) if batch not in present]
    if not missing:
        return []
    shown = ", ".join(map(str, missing[:_SHOWN])) + (" ..." if len(missing) > _SHOWN else "")
    text = (
        f"{root.path(layout.CHANGELOG)} has no readable manifest of batches {shown}, which are "
        f"committed and after the newest intact checkpoint (batch {base}); a job recreates a "
        "manifest from the changelogs of its batch if all of them are there"
    )
    return [text]


def _missing_savepoint(registrations: RootRegistrations, storage: CheckpointStorage) -> list[str]:
    uri = registrations.restored_from
    try:
        read_savepoint(uri, storage)
    except (CheckpointError, CorruptDataError) as problem:
        return [f"the state before batch {registrations.first_batch} is in {uri}: {problem}"]
    return []


def _newest_commit(root: StateRoot) -> int:
    """The newest committed batch whose manifest must exist; -1 if there is none."""
    folders = layout.spark_folders(root.uri)
    names = [name for folder in folders for name in root.storage.list(join(folder, "commits"))]
    newest = max((int(name) for name in names if layout.is_number(name)), default=-1)
    # The manifest follows the commit: a running job may be about to write it.
    if newest >= 0 and root.storage.list(root.path(layout.batch_folder(newest))):
        return newest - 1
    return newest


def _distinct(manifest: Manifest) -> list[ChangelogFile]:
    """The files of a manifest without duplicates."""
    return list({file.path: file for file in manifest.changelogs}.values())


def _problem(root: StateRoot, file: ChangelogFile, *, checksums: bool) -> str:
    problem = file_problem(root.path(file.path), file, root.storage, checksums=checksums)
    return f"batch {file.batch_id}: {problem}" if problem else ""
