"""What happens to files: writes that fail, and stored files that are damaged or gone."""

from __future__ import annotations

import os
import resource
import time
from typing import TYPE_CHECKING

from tests.chaos.faults.faults import wait_gone
from tests.chaos.processes import kill

from queryable_state.internal.v1.checkpoint_pb2 import CheckpointMetadata
from queryable_state.server.checkpoint import framing, layout
from queryable_state.wire.errors import CorruptDataError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.chaos.site import Site

_SETTLE_S = 0.3
_CHECKPOINTS_S = 60.0
_COMMIT_S = 420.0


def fail_writes(site: Site) -> str:
    """No file of a state server may grow for a while: its writes fail with EFBIG.

    It begins at any moment, which mostly fails changelogs, or right behind a commit, where the
    flushes of a checkpoint fail.
    """
    server = site.a_server()
    limit = site.chance.choice([0, 0, 4096, 65536])
    seconds = site.chance.uniform(0.3, 3.0)
    behind = site.chance.random() < 0.5
    if behind:
        # Tables of one batch are small: only this limit fails them.
        limit = 0
        site.wait_commits(1, _COMMIT_S)
    try:
        unlimited = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (limit, unlimited[1]))
        time.sleep(seconds)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, unlimited)
    except ProcessLookupError:
        return f"{server}, which ended meanwhile"
    when = ", from a commit on" if behind else ""
    return f"{server}: over {limit} bytes for {seconds:.1f} s{when}"


def damage_checkpoint(site: Site) -> str:
    """Damages a file of the newest checkpoint alone while all state has to be restored.

    Every executor is killed first: then no server has the state in memory or on its own disk, and
    no checkpoint that would name the damaged file can be made before it is found.
    """
    _wait_for_checkpoints(site)
    killed = _kill_executors(site)
    newest, older = checkpoints(site.root)[:2]
    candidates = sorted(_files(newest[1]) - _files(older[1]))
    candidates.append(layout.metadata_file(layout.checkpoint_folder(newest[0])))
    path = site.chance.choice(candidates)
    how = _damage(site, site.root / path)
    site.damaged_checkpoint = newest[0]
    return f"{how} {path} of checkpoints {newest[0]} and {older[0]}; {killed}"


def damage_changelog(site: Site) -> str:
    """Damages a changelog that the newest checkpoint makes needless; all state is restored."""
    _wait_for_checkpoints(site)
    killed = _kill_executors(site)
    newest = checkpoints(site.root)[0]
    candidates = [
        path
        for path in (site.root / layout.CHANGELOG).glob("*/*/*/*")
        if int(path.relative_to(site.root).parts[1]) <= newest[1].version
    ]
    if not candidates:
        return f"no changelog is older than checkpoint {newest[0]}; {killed}"
    path = site.chance.choice(sorted(candidates))
    how = _damage(site, path)
    # The older checkpoint cannot be gone back to any more: the newest must stay as it is.
    site.damaged_checkpoint = newest[0]
    return f"{how} {path.relative_to(site.root)}, checkpoint {newest[0]} is newer; {killed}"


def checkpoints(root: Path) -> list[tuple[int, CheckpointMetadata]]:
    """The complete checkpoints of a root by number, newest first."""
    return sorted(_checkpoints(root), key=lambda found: found[0], reverse=True)


def _checkpoints(root: Path) -> Iterator[tuple[int, CheckpointMetadata]]:
    for folder in root.glob("chk-*"):
        number = layout.checkpoint_id(folder.name)
        path = folder / layout.METADATA
        if number is None:
            continue
        try:
            metadata = framing.read_message(CheckpointMetadata, path.read_bytes(), str(path))
        except (FileNotFoundError, CorruptDataError):
            # Being written or removed, or damaged by us.
            continue
        yield number, metadata


def _files(metadata: CheckpointMetadata) -> set[str]:
    """Paths of the files a checkpoint names."""
    return {
        file.path
        for operator in metadata.operators
        for range_ in operator.ranges
        for file in range_.files
        if file.path
    }


def _wait_for_checkpoints(site: Site) -> None:
    """Until there are two that were made after the last damage."""

    def enough() -> bool:
        return sum(n > site.damaged_checkpoint for n, _ in checkpoints(site.root)) >= 2

    site.wait(enough, _CHECKPOINTS_S, "no two new checkpoints are made")


def _kill_executors(site: Site) -> str:
    servers = [server.pid for server in site.servers()]
    executors = [executor.pid for executor in site.executors()]
    kill(*executors, *servers)
    wait_gone([*executors, *servers])
    # A checkpoint all parts of which had come may still be completed.
    time.sleep(_SETTLE_S)
    return f"executors {', '.join(map(str, executors))} killed"


def _damage(site: Site, path: Path) -> str:
    """Replaces a file: local copies that share its disk blocks stay as they are."""
    data = path.read_bytes()
    how = site.chance.choice(["removed", "cut", "altered", "emptied"])
    if how == "removed" or not data:
        path.unlink()
        return "removed"
    at = site.chance.randrange(len(data))
    content = {
        "cut": data[:at],
        "altered": data[:at] + bytes([data[at] ^ 0x5A]) + data[at + 1 :],
        "emptied": b"",
    }[how]
    draft = path.with_name(f".{path.name}.damaged")
    draft.write_bytes(content)
    os.replace(draft, path)  # noqa: PTH105 - replaces, as Path.replace does
    return how
