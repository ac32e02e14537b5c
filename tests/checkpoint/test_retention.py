"""Retention: nothing a kept checkpoint or another root needs is ever removed."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queryable_state.internal.v1.checkpoint_pb2 import (
    CheckpointMetadata,
    Manifest,
    OperatorSnapshot,
    RangeSnapshot,
    StoredFile,
)
from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.file_systems.object_storage import MemoryObjectStore
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint.state_root import StateRoot
from queryable_state.wire.errors import InvalidRequestError, SupersededError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tests.checkpoint.conftest import Place


FOREIGN = "s3://another/root/shared/00-1"


def checkpoint(
    root: StateRoot, checkpoint_id: int, version: int, shared: Iterable[str], epoch: int = 1
) -> CheckpointMetadata:
    """A checkpoint of one file of its own, shared ones, one inlined, and one of another root."""
    own = f"{layout.range_folder(f'chk-{checkpoint_id}', 'uid', 0, 127)}/MANIFEST"
    files = [
        StoredFile(name="own", path=own),
        StoredFile(name="inlined", inlined=b"x"),
        StoredFile(name="foreign", path=FOREIGN),
        *(StoredFile(name=name, path=f"shared/{name}") for name in shared),
    ]
    for file in files:
        if file.path and file.path != FOREIGN:
            root.storage.write(root.path(file.path), b"x")
    metadata = CheckpointMetadata(
        format_version=1,
        checkpoint_id=checkpoint_id,
        version=version,
        run_epoch=epoch,
        operators=[OperatorSnapshot(uid="uid", ranges=[RangeSnapshot(files=files)])],
    )
    root.write_checkpoint(metadata)
    return metadata


def needed(root: StateRoot, metadata: CheckpointMetadata) -> Iterable[str]:
    yield root.path(f"chk-{metadata.checkpoint_id}/_metadata")
    for operator in metadata.operators:
        for each in operator.ranges:
            own = (file for file in each.files if file.path not in ("", FOREIGN))
            yield from (root.path(file.path) for file in own)


def in_memory_root() -> StateRoot:
    root = f"driver:/{uuid.uuid4().hex}"
    return StateRoot(root, storage_of(root, objects=MemoryObjectStore()))


def test_what_only_older_checkpoints_need_goes(place: Place) -> None:
    root = place.root()
    epoch = root.allocate_epoch(b"run")
    for batch in range(10):
        root.write_manifest(Manifest(format_version=1, batch_id=batch, run_epoch=epoch))
    checkpoint(root, 1, 2, ["a", "b"])
    kept = [checkpoint(root, 2, 5, ["b", "c"]), checkpoint(root, 3, 8, ["c", "d"])]

    removed = root.retain(root.checkpoints(), 2, epoch=epoch)
    assert (removed.checkpoints, removed.shared_files, removed.batches) == ((1,), 1, 6)
    assert root.checkpoints() == kept[::-1]
    assert root.batches() == [6, 7, 8, 9]
    assert root.storage.list(root.path("shared")) == ["b", "c", "d"]
    assert root.storage.walk(root.path("chk-1")) == []
    assert not root.retain(root.checkpoints(), 2, epoch=epoch).checkpoints


def test_what_was_begun_and_given_up_goes_and_what_is_under_way_stays(place: Place) -> None:
    root = place.root()
    epoch = root.allocate_epoch(b"run")
    for folder in ("chk-1", "chk-3"):
        root.storage.write(root.path(f"{folder}/uid/0-1/state"), b"x")
    checkpoint(root, 2, 5, [])
    root.retain(root.checkpoints(), 2, epoch=epoch)
    assert [name for name in root.storage.list(root.uri) if name.startswith("chk-")] == [
        "chk-2",
        "chk-3",
    ]


def test_nothing_is_removed_before_the_first_checkpoint() -> None:
    root = in_memory_root()
    epoch = root.allocate_epoch(b"run")
    root.write_manifest(Manifest(format_version=1, batch_id=0, run_epoch=epoch))
    root.storage.write(root.path("chk-1/uid/0-1/state"), b"x")
    root.retain([], 1, epoch=epoch)
    assert root.batches() == [0]
    assert root.storage.list(root.path("chk-1")) == ["uid"]
    with pytest.raises(InvalidRequestError, match="at least 1"):
        root.retain([], 0, epoch=epoch)


def test_a_superseded_run_removes_nothing() -> None:
    root = in_memory_root()
    root.allocate_epoch(b"old")
    checkpoint(root, 1, 2, ["a"])
    checkpoint(root, 2, 3, ["b"])
    root.allocate_epoch(b"new")
    before = root.storage.walk(root.uri)
    with pytest.raises(SupersededError, match="must stop"):
        root.retain(root.checkpoints(), 1, epoch=1)
    assert [each for each in before if not each.path.startswith("epochs/")] == [
        each for each in root.storage.walk(root.uri) if not each.path.startswith("epochs/")
    ]


SHARED = st.lists(st.sampled_from("abcdef"), unique=True, max_size=4)


@settings(max_examples=100)
@given(
    st.lists(st.tuples(SHARED, st.integers(1, 3), st.booleans()), min_size=1, max_size=8),
    st.integers(1, 4),
)
def test_kept_checkpoints_and_other_roots_stay_whole(
    taken: list[tuple[list[str], int, bool]], keep: int
) -> None:
    """Checkpoints taken one after the other, some completed only, some followed by retention."""
    root = in_memory_root()
    epoch = root.allocate_epoch(b"run")
    root.storage.write(root.path("shared/of-nobody"), b"x")
    version = 0
    complete: list[CheckpointMetadata] = []
    for number, (shared, batches, retain) in enumerate(taken, 1):
        for _ in range(batches):
            version += 1
            root.write_manifest(Manifest(format_version=1, batch_id=version, run_epoch=epoch))
        complete.append(checkpoint(root, number, version, shared))
        if retain:
            # What the caller remembers may be less than what is there.
            root.retain(complete[-2:], keep, epoch=epoch)
            complete = complete[-keep:]
        for metadata in complete:
            for path in needed(root, metadata):
                assert root.storage.exists(path)
        oldest = complete[0].version
        assert set(range(oldest + 1, version + 1)) <= set(root.batches())
        assert root.storage.exists(root.path("shared/of-nobody"))
