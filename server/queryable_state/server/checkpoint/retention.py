"""Retention of checkpoints: removal of files that no kept checkpoint needs."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.file_systems.storage import join
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from queryable_state.internal.v1.checkpoint_pb2 import CheckpointMetadata
    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage

_REMOVERS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Removed:
    """Numbers of files and folders that one run of retention has removed."""

    checkpoints: tuple[int, ...] = ()
    """Ids of the complete checkpoints."""

    shared_files: int = 0
    batches: int = 0
    """Folders of changelogs."""


class Retention:
    """Keeps the newest complete checkpoints of a root and removes the others.

    It only removes files of the root that `layout` names, never files of other roots,
    savepoints or Spark's folder.
    """

    def __init__(
        self,
        uri: str,
        storage: CheckpointStorage,
        checkpoints: Iterable[CheckpointMetadata],
        keep: int,
    ) -> None:
        if keep < 1:
            raise InvalidRequestError(f"cannot keep {keep} checkpoints: keep at least 1")
        self._uri = uri
        self._storage = storage
        newest_first = sorted(checkpoints, key=lambda each: each.checkpoint_id, reverse=True)
        self._kept, self._older = newest_first[:keep], newest_first[keep:]

    def remove(self, begun: Iterable[int], batches: Iterable[int]) -> Removed:
        """Removes old ones of the checkpoints in `begun` and of the `batches` with changelogs.

        The metadata of a checkpoint is removed first, so that none looks complete that is not.
        """
        if not self._kept:
            return Removed()
        kept = {each.checkpoint_id for each in self._kept}
        newest = max(kept)
        folders = [
            layout.checkpoint_folder(each) for each in begun if each < newest and each not in kept
        ]
        needed = set(_shared_files(self._kept))
        shared = sorted(set(_shared_files(self._older)) - needed)
        oldest = min(each.version for each in self._kept)
        contained = [layout.batch_folder(batch) for batch in batches if batch <= oldest]
        with ThreadPoolExecutor(_REMOVERS, thread_name_prefix="retention") as removers:
            list(removers.map(self._delete, map(layout.metadata_file, folders)))
            list(removers.map(self._delete_tree, (*folders, *contained)))
            list(removers.map(self._delete, shared))
        return Removed(
            checkpoints=tuple(each.checkpoint_id for each in self._older),
            shared_files=len(shared),
            batches=len(contained),
        )

    def _delete(self, path: str) -> None:
        self._storage.delete(join(self._uri, path))

    def _delete_tree(self, path: str) -> None:
        self._storage.delete_tree(join(self._uri, path))


def _shared_files(checkpoints: Iterable[CheckpointMetadata]) -> Iterator[str]:
    for checkpoint in checkpoints:
        for operator in checkpoint.operators:
            for each in operator.ranges:
                for file in each.files:
                    if file.path.startswith(f"{layout.SHARED}/"):
                        yield file.path
