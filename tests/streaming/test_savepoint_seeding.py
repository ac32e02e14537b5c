"""A location and a root made to begin behind a savepoint; the logs of file sources, cut off."""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryable_state.internal.v1.checkpoint_pb2 import CheckpointMetadata
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint.framing import write_message
from queryable_state.server.checkpoint.state_root import StateRoot
from queryable_state.streaming.spark.savepoints.progress_export import FileGoneError, cut_log
from queryable_state.streaming.spark.savepoints.savepoint import Savepoint
from queryable_state.streaming.spark.savepoints.seeding import seed
from queryable_state.streaming.spark.savepoints.spark_files import SparkFiles
from queryable_state.wire.errors import CheckpointError, CorruptDataError, RestoreMismatchError

if TYPE_CHECKING:
    from pathlib import Path

NO_JVM: Any = None
"""Local folders are read without it."""


@pytest.fixture
def savepoint(tmp_path: Path) -> Savepoint:
    """One of batch 4."""
    return written(tmp_path / "savepoint-1")


def written(folder: Path, *, savepoint: bool = True) -> Savepoint:
    metadata = CheckpointMetadata(format_version=1, job_name="old", version=4, savepoint=savepoint)
    progress = {
        "metadata": json.dumps({"id": str(uuid.uuid4())}),
        "offsets/4": "v1",
        "commits/4": "v1",
    }
    for name, content in progress.items():
        (folder / "spark" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "spark" / name).write_text(content)
    (folder / "_metadata").write_bytes(write_message(metadata))
    return Savepoint.read(NO_JVM, str(folder))


class Target:
    """Where a query is to begin."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files = SparkFiles(NO_JVM, str(folder / "location"))
        self.root = StateRoot(str(folder / "root"), storage_of(str(folder)))

    def seed(self, savepoint: Savepoint) -> uuid.UUID:
        return seed(savepoint, self.files, self.root, "new")

    def query_id(self) -> uuid.UUID:
        return uuid.UUID(json.loads((self.folder / "location/metadata").read_text())["id"])


@pytest.fixture
def target(tmp_path: Path) -> Target:
    return Target(tmp_path)


def test_the_location_has_the_progress_and_a_new_id_and_the_root_names_the_savepoint(
    savepoint: Savepoint, target: Target
) -> None:
    query_id = target.seed(savepoint)
    assert target.query_id() == query_id
    assert target.files.walk() == ["commits/4", "metadata", "offsets/4", "restored_from.json"]
    record = target.root.registrations()
    assert record is not None
    assert record.job_id == query_id.bytes
    assert (record.restored_from, record.first_batch) == (savepoint.uri, 5)


def test_a_query_that_has_gone_on_is_not_seeded_again(savepoint: Savepoint, target: Target) -> None:
    query_id = target.seed(savepoint)
    target.files.write("offsets/5", b"v1")
    assert target.seed(savepoint) == query_id
    assert target.files.exists("offsets/5")


def test_a_seeding_that_was_interrupted_is_made_again_under_the_same_id(
    savepoint: Savepoint, target: Target
) -> None:
    """A folder where a file should be stops it before the last file."""
    obstacle = target.folder / "location/restored_from.json"
    obstacle.mkdir(parents=True)
    with pytest.raises(CheckpointError, match="cannot be written"):
        target.seed(savepoint)
    assert not target.files.exists("metadata")
    obstacle.rmdir()
    record = target.root.registrations()
    assert record is not None
    assert target.seed(savepoint).bytes == record.job_id
    assert target.query_id().bytes == record.job_id


def test_a_root_of_another_savepoint_is_refused(
    savepoint: Savepoint, target: Target, tmp_path: Path
) -> None:
    target.seed(savepoint)
    other = written(tmp_path / "savepoint-2")
    with pytest.raises(RestoreMismatchError, match=r"started from .*savepoint-1.*two histories"):
        target.seed(other)


def test_a_location_of_another_query_is_refused(savepoint: Savepoint, target: Target) -> None:
    target.seed(savepoint)
    target.files.write("metadata", json.dumps({"id": str(uuid.uuid4())}).encode())
    with pytest.raises(RestoreMismatchError, match="holds Spark's checkpoint of query"):
        target.seed(savepoint)


def test_a_location_with_a_checkpoint_and_no_state_is_refused(
    savepoint: Savepoint, target: Target
) -> None:
    target.files.write("metadata", json.dumps({"id": str(uuid.uuid4())}).encode())
    with pytest.raises(RestoreMismatchError, match="already holds Spark's checkpoint of a query"):
        target.seed(savepoint)
    assert target.root.registrations() is None


def test_a_checkpoint_without_its_sparks_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RestoreMismatchError, match=r"chk-0: Spark's checkpoint of its job 'old'"):
        written(tmp_path / "chk-0", savepoint=False)


def test_a_checkpoint_that_was_moved_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorruptDataError, match="was moved or renamed"):
        written(tmp_path / "chk-1", savepoint=False)


@given(
    interval=st.integers(1, 6),
    newest=st.integers(0, 30),
    behind=st.integers(0, 30),
    removed=st.booleans(),
)
def test_a_cut_log_has_the_entries_up_to_its_end_wherever_compactions_were(
    interval: int, newest: int, behind: int, removed: bool
) -> None:
    """A log as Spark leaves it; what the newest compaction covers may be removed or not."""

    def entries(first: int, last: int) -> bytes:
        lines = [json.dumps({"path": f"f{n}", "batchId": n}) for n in range(first, last + 1)]
        return "\n".join(["v1", *lines]).encode()

    log: dict[str, bytes] = {}
    for number in range(newest + 1):
        if (number + 1) % interval == 0:
            if removed:
                log.clear()
            log[f"{number}.compact"] = entries(0, number)
        else:
            log[str(number)] = entries(number, number)
    end = max(0, newest - behind)
    cut = cut_log(list(log), log.get, end)
    numbers = {int(name.removesuffix(".compact")): name for name in cut}
    assert max(numbers) == end
    base = max((n for n, name in numbers.items() if name.endswith(".compact")), default=-1)
    found = [
        json.loads(line)["batchId"]
        for number in range(max(base, 0), end + 1)
        for line in cut[numbers[number]].split(b"\n")[1:]
    ]
    assert found == list(range(end + 1))


def test_a_log_with_a_gap_is_read_again() -> None:
    with pytest.raises(FileGoneError):
        cut_log(["0", "2"], {"0": b"v1", "2": b"v1"}.get, 2)
