"""Choice of the snapshot and the deltas that make a version."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.native_state.files.outcomes import (
    damaged,
    missing,
    not_yet_written,
)
from queryable_state.wire.errors import VersionGoneError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Set

    from queryable_state.wire.errors import QueryableStateError


def choose_chain(
    version: int,
    snapshots: Set[int],
    deltas: Set[int],
    folder: str,
    file: Callable[[int], str],
    *,
    avoid: Collection[int] = (),
    other_snapshots: Set[int] = frozenset(),
) -> tuple[int, range]:
    """The version of the snapshot to begin with, 0 for an empty store, and the deltas to apply.

    `file` names the file of a version in the folder, for errors. `other_snapshots` do not lead to
    this version, but show how far the job has come. Raises VersionGoneError, NotYetWrittenError or
    CorruptDataError if there is no such chain.
    """
    # The oldest version from which deltas lead up to this one without a gap.
    lowest = version
    while lowest in deltas:
        lowest -= 1
    usable = [each for each in snapshots if lowest <= each <= version and each not in avoid]
    base = max(usable, default=0)
    if base >= lowest or lowest == 0:
        return base, range(base + 1, version + 1)
    kept = snapshots | other_snapshots
    raise _no_chain(version, lowest, kept, deltas, folder, file, avoid)


def _no_chain(
    version: int,
    lowest: int,
    snapshots: Set[int],
    deltas: Set[int],
    folder: str,
    file: Callable[[int], str],
    avoid: Collection[int],
) -> QueryableStateError:
    newest = max(snapshots | deltas, default=0)
    if newest < version:
        there = f"the newest version there is {newest}"
        return not_yet_written(
            f"{folder}/{file(version)}",
            there,
            left=f"{there}, that of batch {newest - 1}" if newest else "no version is there",
        )
    tried = sorted(each for each in snapshots if each <= version and each in avoid)
    if tried:
        return damaged(
            folder,
            f"snapshots {', '.join(map(str, tried))} cannot be read and no other snapshot leads to "
            f"version {version}",
        )
    if any(each > lowest for each in snapshots):
        # The job removes files only below a snapshot that it keeps.
        return gone(version, folder)
    return missing(
        f"{folder}/{file(lowest)}",
        f"version {lowest} is missing, so version {version} cannot be restored",
    )


def gone(version: int, folder: str) -> VersionGoneError:
    """The error for a version whose files Spark has removed (`minBatchesToRetain`)."""
    return gone_batch(version - 1, folder)


def gone_batch(batch: int, folder: str) -> VersionGoneError:
    """The error for a batch whose files Spark has removed (`minBatchesToRetain`)."""
    return VersionGoneError(
        f"the files of batch {batch} are gone from {folder}: the job keeps those of its newest "
        "batches (spark.sql.streaming.minBatchesToRetain): ask for a newer batch"
    )
