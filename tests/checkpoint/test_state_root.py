"""A job's root: epochs, registrations, manifests and checkpoints, on every storage."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from queryable_state.internal.v1.checkpoint_pb2 import (
    CheckpointMetadata,
    Manifest,
    RootRegistrations,
)
from queryable_state.server.checkpoint.file_systems.storage import MissingFileError, join
from queryable_state.server.checkpoint.framing import write_message
from queryable_state.server.checkpoint.state_root import read_savepoint
from queryable_state.v1.registration_pb2 import StateRegistration
from queryable_state.wire.errors import CorruptDataError, Reason, SupersededError

if TYPE_CHECKING:
    from tests.checkpoint.conftest import Place

    from queryable_state.server.checkpoint.file_systems.storage import FileEntries
    from queryable_state.server.checkpoint.state_root import StateRoot


def complete(
    root: StateRoot, checkpoint_id: int, version: int = 0, epoch: int = 0
) -> CheckpointMetadata:
    metadata = CheckpointMetadata(
        format_version=1, checkpoint_id=checkpoint_id, version=version, run_epoch=epoch
    )
    root.write_checkpoint(metadata)
    return metadata


def test_a_root_exists_once_a_job_kept_something_there(place: Place) -> None:
    root = place.root()
    assert not root.exists()
    root.storage.write(join(root.uri, "spark", "metadata"), b"{}")
    root.allocate_epoch(b"run")
    assert not root.exists()
    root.write_registrations(1, RootRegistrations(format_version=1))
    assert root.exists()


def test_epochs_grow_and_belong_to_one_run_each(place: Place) -> None:
    assert place.root().newest_epoch() == 0
    assert place.root().allocate_epoch(b"one") == 1
    assert place.root().allocate_epoch(b"two") == 2
    assert place.root().allocate_epoch(b"two") == 3
    assert place.root().newest_epoch() == 3
    if place.uri.startswith(("local:", "memory:")):
        return
    with ThreadPoolExecutor(4) as drivers:
        epochs = list(drivers.map(lambda n: place.root().allocate_epoch(b"run %d" % n), range(4)))
    assert sorted(epochs) == [4, 5, 6, 7]


def test_a_run_finds_the_epoch_it_took_when_the_answer_got_lost(place: Place) -> None:
    root = place.root()
    assert root.allocate_epoch(b"one") == 1
    create = root.storage.create

    def lose_the_first_answer(path: str, data: bytes) -> bool:
        create(path, data)
        return create(path, data)

    root.storage.create = lose_the_first_answer  # type: ignore[method-assign]
    assert root.allocate_epoch(b"two") == 2


def test_an_older_epoch_is_fenced(place: Place) -> None:
    root = place.root()
    root.allocate_epoch(b"one")
    root.check_epoch(1)
    root.allocate_epoch(b"two")
    for refused in (
        lambda: root.check_epoch(1),
        lambda: complete(root, 1, epoch=1),
        lambda: root.retain([], 1, epoch=1),
    ):
        with pytest.raises(SupersededError, match="epoch 2 is taken") as refusal:
            refused()
        assert refusal.value.reason == Reason.FENCED
    assert root.checkpoints() == []


def test_the_newest_registrations_count(place: Place) -> None:
    def record(first_batch: int) -> RootRegistrations:
        return RootRegistrations(
            format_version=1,
            job_name="job",
            states=[StateRegistration(state_id=7)],
            first_batch=first_batch,
        )

    root = place.root()
    assert root.registrations() is None
    for epoch, first_batch in ((2, 1), (2, 2), (1, 3)):
        root.write_registrations(epoch, record(first_batch))
    assert place.root().registrations() == record(2)
    for number in range(10):
        root.write_registrations(3, record(number))
    assert place.root().registrations() == record(9)


def test_the_manifest_of_the_highest_epoch_counts(place: Place) -> None:
    root = place.root()
    assert root.manifest(3) is None
    assert root.manifests(-1) == []
    assert root.batches() == []
    for batch, epoch in ((0, 1), (2, 1), (2, 3), (2, 2), (10, 3)):
        root.write_manifest(Manifest(format_version=1, batch_id=batch, run_epoch=epoch))
    root.storage.write(join(root.uri, "changelog/11/uid/0-1/1-1"), b"sealed")
    found = root.manifest(2)
    assert found is not None
    assert found.run_epoch == 3
    assert root.manifest(11) is None
    assert [(each.batch_id, each.run_epoch) for each in root.manifests(-1)] == [
        (0, 1),
        (2, 3),
        (10, 3),
    ]
    assert [each.batch_id for each in root.manifests(2)] == [10]
    assert root.batches() == [0, 2, 10, 11]


def test_a_corrupt_manifest_is_named_and_hides_no_other(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    root = place.root()
    for batch in (1, 2, 3):
        root.write_manifest(Manifest(format_version=1, batch_id=batch, run_epoch=1))
    path = join(root.uri, "changelog/2/_manifest-00000001")
    root.storage.write(path, root.storage.read(path)[:-1])
    with pytest.raises(CorruptDataError, match="changelog/2/_manifest-00000001"):
        root.manifest(2)
    assert root.has_manifest(2)
    assert [manifest.batch_id for manifest in root.manifests(0)] == [1, 3]
    (record,) = [r for r in caplog.records if r.levelname == "ERROR"]
    assert "changelog/2/_manifest-00000001" in record.getMessage()


def test_manifests_that_are_retired_while_they_are_read_are_left_out(place: Place) -> None:
    root = place.root()
    for batch in (1, 2):
        root.write_manifest(Manifest(format_version=1, batch_id=batch, run_epoch=1))
    walk = root.storage.walk

    def retired_then(folder: str) -> FileEntries:
        found = walk(folder)
        root.storage.delete_tree(join(root.uri, "changelog/1"))
        return found

    root.storage.walk = retired_then  # type: ignore[method-assign]
    assert [manifest.batch_id for manifest in root.manifests(0)] == [2]


def test_checkpoints_are_listed_newest_first_and_broken_ones_named(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    root = place.root()
    assert root.next_checkpoint_id() == 1
    first, tenth = complete(root, 1, version=3), complete(root, 10, version=9)
    root.storage.write(join(root.uri, "chk-11", "uid", "0-1", "state"), b"not completed")
    root.storage.write(join(root.uri, "chk-9", "_metadata"), b"garbage")
    old = CheckpointMetadata(format_version=2, checkpoint_id=8)
    root.storage.write(join(root.uri, "chk-8", "_metadata"), write_message(old))
    other = CheckpointMetadata(format_version=1, checkpoint_id=6)
    root.storage.write(join(root.uri, "chk-7", "_metadata"), write_message(other))

    caplog.set_level("INFO")
    assert root.checkpoints() == [tenth, first]
    assert root.next_checkpoint_id() == 12
    assert [each.path.rpartition("/")[2] for each in root.broken_checkpoints()] == [
        "chk-11",
        "chk-9",
        "chk-8",
        "chk-7",
    ]
    assert [each.begun for each in root.broken_checkpoints()] == [True, False, False, False]
    for text in ("not completed", "is truncated", "version 2", "that of checkpoint 6"):
        assert text in caplog.text


def test_a_checkpoint_is_completed_once(place: Place) -> None:
    root = place.root()
    complete(root, 1, version=3)
    complete(root, 1, version=3)
    with pytest.raises(SupersededError, match="another run of the job completed"):
        complete(root, 1, version=4)
    assert [each.version for each in root.checkpoints()] == [3]


def test_deleting_a_root_leaves_spark_and_strangers(place: Place) -> None:
    root = place.root()
    for path in (
        "spark/metadata",
        "savepoint-010203-0405/_metadata",
        "chk-1/uid/0-1/state",
        "chk-1/_metadata",
        "shared/ab-1",
        "changelog/3/_manifest-00000001",
    ):
        root.storage.write(join(root.uri, path), b"x")
    root.allocate_epoch(b"run")
    root.write_registrations(1, RootRegistrations(format_version=1))
    for _ in range(2):
        root.delete()
        assert [entry.path for entry in root.storage.walk(root.uri)] == [
            "savepoint-010203-0405/_metadata",
            "spark/metadata",
        ]
    assert not root.exists()


def test_a_savepoint_is_read_by_its_folder(place: Place) -> None:
    root = place.root()
    metadata = CheckpointMetadata(format_version=1, version=3, savepoint=True, job_name="job")
    folder = join(root.uri, "savepoint-1")
    root.storage.write(join(folder, "_metadata"), write_message(metadata))
    assert read_savepoint(folder, root.storage) == metadata
    complete(root, 4)
    assert read_savepoint(join(root.uri, "chk-4"), root.storage).checkpoint_id == 4
    with pytest.raises(MissingFileError, match="a state root: name one of its checkpoints, chk-4"):
        read_savepoint(root.uri, root.storage)
    with pytest.raises(MissingFileError, match=r"savepoint-2/_metadata, .* does not exist"):
        read_savepoint(join(root.uri, "savepoint-2"), root.storage)
