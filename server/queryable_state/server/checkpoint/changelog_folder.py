"""Selection of the valid changelog files of a batch that several attempts have written."""

from __future__ import annotations

import heapq
import logging
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING

from queryable_state.internal.v1.checkpoint_pb2 import ChangelogFile
from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.file_systems.storage import MissingFileError, checksum, join
from queryable_state.wire.changelog import read_changelog
from queryable_state.wire.changes import Token
from queryable_state.wire.errors import CheckpointError, CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage
    from queryable_state.v1.registration_pb2 import StateRegistration
    from queryable_state.wire.changelog import Changelog

_log = logging.getLogger(__name__)

_READERS = 8


def choose(files: Iterable[ChangelogFile]) -> list[ChangelogFile]:
    """Chooses the file of the highest token for each operator and key group.

    `files` are of one batch. Returns entries clipped to the chosen key groups, by operator and
    first key group, ascending and without overlap. A file is in several entries if a higher
    token covers its middle, and in none if higher tokens cover all of it.
    """
    ordered = sorted(files, key=attrgetter("operator_uid", "first_key_group"))
    return [
        entry
        for _, of_operator in groupby(ordered, key=attrgetter("operator_uid"))
        for entry in _entries(list(of_operator))
    ]


def _entries(files: list[ChangelogFile]) -> Iterator[ChangelogFile]:
    """Sweeps over the key groups; `open_files` is a heap with the highest token first."""
    bounds = sorted(
        {file.first_key_group for file in files} | {file.last_key_group + 1 for file in files}
    )
    open_files: list[tuple[tuple[int, int], str, int]] = []
    entry: ChangelogFile | None = None
    chosen = -1
    position = 0
    for bound in bounds:
        while position < len(files) and files[position].first_key_group == bound:
            token, path = files[position].token, files[position].path
            order = (-token.run_epoch, -token.task_attempt)
            # The path makes the order total, should two files ever have one token.
            heapq.heappush(open_files, (order, path, position))
            position += 1
        while open_files and files[open_files[0][2]].last_key_group < bound:
            heapq.heappop(open_files)
        highest = open_files[0][2] if open_files else -1
        if highest != chosen:
            if entry is not None:
                entry.last_key_group = bound - 1
                yield entry
            entry = None
            if highest >= 0:
                entry = ChangelogFile()
                entry.CopyFrom(files[highest])
                entry.first_key_group = bound
            chosen = highest


def choose_committed(
    storage: CheckpointStorage,
    root: str,
    batch_id: int,
    offsets_digest: bytes,
    states: Mapping[int, StateRegistration],
    *,
    allow_missing: bool = False,
) -> list[ChangelogFile]:
    """The valid files of a committed batch. `states`: those of the root, by id.

    Raises CheckpointError if a damaged file has key groups that no intact file covers: a server
    may have acknowledged that file, so its changes would be lost. With `allow_missing` it only
    logs that.
    """
    broken: dict[str, str] = {}
    chosen = choose(list_sealed(storage, root, batch_id, offsets_digest, states, broken))
    lost = sorted(path for path in broken if not _is_covered(path, chosen))
    if lost:
        names = ", ".join(f"{join(root, path)} ({broken[path]})" for path in lost)
        text = f"batch {batch_id} is committed, but changelogs of it are damaged: {names}"
        if not allow_missing:
            raise CheckpointError(
                f"{text}: restore them from a copy, remove them if no server has acknowledged "
                "them, or allow missing state to continue without them"
            )
        _log.error("%s: the query continues without them, because missing state is allowed", text)
    return chosen


def _is_covered(path: str, chosen: Iterable[ChangelogFile]) -> bool:
    """True if chosen files contain all key groups of a file."""
    named = layout.parse_changelog_file(path)
    assert named is not None
    first = named.first_key_group
    for file in chosen:
        if file.operator_uid == named.operator_uid and file.first_key_group <= first:
            first = max(first, file.last_key_group + 1)
    return first > named.last_key_group


def list_sealed(
    storage: CheckpointStorage,
    root: str,
    batch_id: int,
    offsets_digest: bytes,
    states: Mapping[int, StateRegistration],
    broken: dict[str, str] | None = None,
) -> list[ChangelogFile]:
    """All intact changelogs of a batch that were sealed for these offsets.

    `states`: those of the root, by id, which tell the operator of a change. Logs and skips
    damaged files, files that are not what their name says, and those of other offsets; adds the
    paths and problems of all but the last to `broken`. Paths are relative to the root. `index`
    and `parallelism` are 0, because a file does not contain them.
    """
    folder = layout.batch_folder(batch_id)
    paths = [f"{folder}/{entry.path}" for entry in storage.walk(join(root, folder))]
    corrupt = {} if broken is None else broken

    def read(path: str) -> ChangelogFile | None:
        return _sealed(storage, root, path, offsets_digest, states, corrupt)

    with ThreadPoolExecutor(_READERS, thread_name_prefix="changelogs") as readers:
        return [file for file in readers.map(read, paths) if file is not None]


def _sealed(
    storage: CheckpointStorage,
    root: str,
    path: str,
    offsets_digest: bytes,
    states: Mapping[int, StateRegistration],
    broken: dict[str, str],
) -> ChangelogFile | None:
    named = layout.parse_changelog_file(path)
    if named is None:
        return None
    try:
        data = storage.read(join(root, path))
        changelog = read_changelog(data)
        _check_name(changelog, named, states)
    except MissingFileError:
        return None
    except CorruptDataError as problem:
        _log.warning("ignoring the changelog %s: %s", join(root, path), problem)
        broken[path] = problem.message
        return None
    if changelog.offsets_digest != offsets_digest:
        _log.info("ignoring the changelog %s: it is of other offsets", join(root, path))
        return None
    return ChangelogFile(
        batch_id=named.batch_id,
        operator_uid=named.operator_uid,
        path=path,
        size_bytes=len(data),
        checksum=checksum(data),
        token=Token(run_epoch=named.run_epoch, task_attempt=named.task_attempt),
        first_key_group=named.first_key_group,
        last_key_group=named.last_key_group,
    )


def _check_name(
    changelog: Changelog, named: layout.ChangelogPath, states: Mapping[int, StateRegistration]
) -> None:
    """Raises CorruptDataError if a changelog was not written under its name."""
    token = changelog.seal.token
    found = changelog.batch_id, token.run_epoch, token.task_attempt
    if found != (named.batch_id, named.run_epoch, named.task_attempt):
        raise CorruptDataError(
            f"it has the changes of another attempt: of batch {found[0]}, run {found[1]}, task "
            f"attempt {found[2]}"
        )
    for block in changelog.blocks:
        state = states.get(block.state_id)
        if state is not None and state.operator_uid != named.operator_uid:
            raise CorruptDataError(
                f"it has the changes of another operator: of state {state.state_name!r} of "
                f"operator {state.operator_uid!r}"
            )
        for keys in (block.put_keys, block.deleted_keys, block.cleared_prefixes):
            if not keys:
                continue
            first, last = (int.from_bytes(key[:2]) for key in (min(keys), max(keys)))
            if first < named.first_key_group or last > named.last_key_group:
                raise CorruptDataError(
                    f"it has the changes of another subtask: of keys in key groups {first} to "
                    f"{last}"
                )
