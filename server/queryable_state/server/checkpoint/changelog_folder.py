"""Which of a batch's changelog files count, where several attempts have left some."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.internal.v1.checkpoint_pb2 import ChangelogFile
    from queryable_state.server.checkpoint.storage import CheckpointStorage


def choose(files: Iterable[ChangelogFile]) -> list[ChangelogFile]:
    """For each operator and key group the file of the highest token, as entries clipped to that.

    By operator and first key group, ascending and without overlap. A file may come back in
    several entries, where higher ones cover its middle, or in none. All are of one batch.
    """
    raise NotImplementedError


def list_sealed(
    storage: CheckpointStorage, root: str, batch_id: int, offsets_digest: bytes
) -> list[ChangelogFile]:
    """The whole changelogs of a batch that were made of these offsets, not chosen among yet.

    A torn or corrupt file, and one of other offsets, was never acknowledged for this batch as it
    now is: it is logged and left out. Paths are relative to the root. `index` and `parallelism`
    are 0: a file does not say them.
    """
    raise NotImplementedError
