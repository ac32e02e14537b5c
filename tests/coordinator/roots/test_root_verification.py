"""Whether a job can go on from its root: checkpoints, and the changelogs behind the newest one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.coordinator.drivers import driver, subtask_of

from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint.root_verification import problems_of_root

if TYPE_CHECKING:
    from queryable_state.server.checkpoint.state_root import StateRoot

BATCHES = 3


@pytest.fixture
def root(tmp_path: Path) -> StateRoot:
    """Of a job that has committed three batches, and taken no checkpoint."""
    with driver(tmp_path) as job:
        for batch in range(BATCHES):
            epoch = job.begin(batch)
            for index in (0, 1):
                job.open(subtask_of(index), batch)
                job.peer().register_states(subtask_of(index), "total")
                job.seal(subtask_of(index), batch, attempt=10 * batch + index, epoch=epoch)
            job.commit(batch)
    commits = tmp_path / "spark" / "commits"
    commits.mkdir(parents=True)
    for batch in range(BATCHES):
        (commits / str(batch)).write_text("v1")
    return job.root


def problems(root: StateRoot, *, checksums: bool = False) -> list[str]:
    return problems_of_root(root, [], storage_of, checksums=checksums)


def files(root: StateRoot, folder: str) -> list[Path]:
    return sorted(path for path in Path(root.path(folder)).rglob("*") if path.is_file())


def test_a_whole_root_has_no_problem(root: StateRoot) -> None:
    assert problems(root, checksums=True) == []


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_missing_changelog_is_named(root: StateRoot, batch: int) -> None:
    lost = next(f for f in files(root, layout.batch_folder(batch)) if "manifest" not in f.name)
    lost.unlink()
    assert problems(root) == [f"batch {batch}: {lost} is missing"]


def test_an_altered_changelog_is_found_by_its_checksum(root: StateRoot) -> None:
    altered = next(f for f in files(root, layout.batch_folder(1)) if "manifest" not in f.name)
    content = bytearray(altered.read_bytes())
    content[-1] ^= 1
    altered.write_bytes(content)
    assert problems(root) == []
    assert problems(root, checksums=True) == [f"batch 1: {altered} fails its checksum"]


@pytest.mark.parametrize("batch", range(BATCHES))
def test_a_missing_folder_of_a_committed_batch_is_found(root: StateRoot, batch: int) -> None:
    root.storage.delete_tree(root.path(layout.batch_folder(batch)))
    (problem,) = problems(root)
    assert f"no readable manifest of batches {batch}," in problem


def test_missing_registrations_are_found_by_the_manifests(root: StateRoot) -> None:
    newest = files(root, layout.REGISTRATIONS)[-1]
    newest.unlink()
    (problem,) = problems(root)
    assert newest.name in problem
