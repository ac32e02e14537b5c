"""Changelogs that attempts before have sealed of the batch that begins."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint.changelog_folder import choose, list_sealed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.internal.v1.checkpoint_pb2 import ChangelogFile
    from queryable_state.server.coordinator.roots.job_roots import JobRoot


@dataclass(kw_only=True)
class _Listing:
    batch_id: int
    placement_version: int
    files: Sequence[ChangelogFile] = ()
    told: set[tuple[str, int]] = field(default_factory=set)
    lock: threading.Lock = field(default_factory=threading.Lock)
    done: bool = False


class StagedFiles:
    """Lists the folder of a batch once for all subtasks that are opened together. Thread-safe.

    A listing serves a subtask that was assigned before it began: whoever owned the subtask before
    had ended by then, so what it was acknowledged is in it. It serves each subtask once: one that
    is opened again may have sealed meanwhile.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listings: dict[bytes, _Listing] = {}

    def of(
        self,
        root: JobRoot,
        batch_id: int,
        digest: bytes,
        subtask: tuple[str, int],
        *,
        assigned_version: int,
        placement_version: int,
    ) -> Sequence[ChangelogFile]:
        """The files that count, chosen among, of all operators. `subtask`: uid and index."""
        with self._lock:
            listing = self._listings.get(root.query_id)
            if (
                listing is None
                or listing.batch_id != batch_id
                or listing.placement_version < assigned_version
                or subtask in listing.told
            ):
                listing = _Listing(batch_id=batch_id, placement_version=placement_version)
                self._listings[root.query_id] = listing
            listing.told.add(subtask)
        with listing.lock:
            if not listing.done:
                sealed = list_sealed(root.storage, root.uri, batch_id, digest)
                listing.files, listing.done = choose(sealed), True
            return listing.files

    def forget(self, query_id: bytes) -> None:
        """Forgets what was listed of a query."""
        with self._lock:
            self._listings.pop(query_id, None)
