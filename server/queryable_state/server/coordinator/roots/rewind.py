"""A query whose Spark checkpoint was set back: its state follows, as far as it reaches."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.file_systems.storage import join
from queryable_state.wire.errors import JobError, SupersededError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from queryable_state.internal.v1.checkpoint_pb2 import CheckpointMetadata, RootRegistrations
    from queryable_state.server.checkpoint.state_root import StateRoot

_log = logging.getLogger(__name__)


def rewind(
    root: StateRoot,
    record: RootRegistrations,
    batch_id: int,
    is_committed: Callable[[int], bool],
) -> list[CheckpointMetadata]:
    """The checkpoints a run that begins at a batch can go on from, newest first.

    Where the root is past the batch, what it has of later batches is removed: they will be other
    batches. Changelogs of the batch itself stay: those made of the same offsets still count.
    JobError, and nothing removed, where what was before the batch is not there any more.
    SupersededError, and nothing removed, where the engine has the batch committed: then nobody
    set it back, and another driver has gone on since this run looked where to begin.
    """
    checkpoints = [c for c in root.checkpoints() if c.version >= record.first_batch - 1]
    usable = [c for c in checkpoints if c.version < batch_id]
    batches = [batch for batch in root.batches() if batch >= batch_id]
    committed = [batch for batch in batches if root.has_manifest(batch)]
    later = [c for c in checkpoints if c.version >= batch_id]
    if not later and not committed:
        return usable
    newest = max([*committed, *(c.version for c in later)])
    # Asked after the root was read: whoever wrote a manifest there had seen the commit.
    if is_committed(batch_id):
        raise SupersededError(
            f"the query begins at batch {batch_id}, and its state in {root.uri} is at {newest}, as "
            "its checkpoint is by now: another driver runs the same query; end one of the two"
        )
    if (later and not usable) or batch_id < record.first_batch:
        raise JobError(
            f"the query begins again at batch {batch_id}, and its state in {root.uri} is at "
            f"{newest} and reaches back to {_reach(record, later, checkpoints)}: its checkpoint "
            "was set back further than the state can follow; start it as a new query, from a "
            "checkpoint location of its own, or from a savepoint"
        )
    _log.warning(
        "the query begins again at batch %d, and its state in %s is at %d: the state follows, and "
        "what is stored of batches %d to %d is removed",
        batch_id,
        root.uri,
        newest,
        batch_id,
        newest,
    )
    for metadata in sorted(later, key=lambda c: c.version, reverse=True):
        folder = layout.checkpoint_folder(metadata.checkpoint_id)
        # Without its metadata it is none: a crash in between leaves nothing half.
        root.storage.delete(root.path(layout.metadata_file(folder)))
        root.storage.delete_tree(root.path(folder))
    for batch in sorted(batches, reverse=True):
        folder = root.path(layout.batch_folder(batch))
        for name in root.storage.list(folder):
            if layout.manifest_epoch(name) is not None:
                root.storage.delete(join(folder, name))
        if batch > batch_id:
            root.storage.delete_tree(folder)
    return usable


def _reach(
    record: RootRegistrations,
    later: Sequence[CheckpointMetadata],
    checkpoints: Sequence[CheckpointMetadata],
) -> int:
    if not later:
        return record.first_batch
    return min(metadata.version for metadata in checkpoints) + 1
