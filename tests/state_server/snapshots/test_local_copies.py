"""What an executor's disk still has of snapshots."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.checkpoint.file_systems.storage import checksum
from queryable_state.server.state_server.base.local_copies import LocalCopies
from queryable_state.server.state_server.base.server_directory import ServerDirectory
from queryable_state.server.testing.cluster import corrupt

if TYPE_CHECKING:
    from pathlib import Path

JOB, OTHER = b"j" * 16, b"o" * 16


def made(folder: Path, content: bytes) -> tuple[Path, bytes, int]:
    """A file, its checksum and its size."""
    folder.mkdir(exist_ok=True)
    file = folder / content.decode()
    file.write_bytes(content)
    return file, checksum(content), len(content)


def test_a_copy_is_found_by_its_content_and_by_the_next_server_too(tmp_path: Path) -> None:
    file, digest, size = made(tmp_path / "files", b"content")
    LocalCopies(tmp_path / "copies").add(JOB, digest, size, file)
    file.unlink()
    copies = LocalCopies(tmp_path / "copies")
    assert copies.take(JOB, digest, size, tmp_path / "taken")
    assert (tmp_path / "taken").read_bytes() == b"content"
    assert not copies.take(OTHER, digest, size, tmp_path / "other")
    assert not copies.take(JOB, digest, size + 1, tmp_path / "other")


def test_a_damaged_copy_is_not_taken_and_goes(tmp_path: Path) -> None:
    file, digest, size = made(tmp_path / "files", b"content")
    copies = LocalCopies(tmp_path / "copies")
    copies.add(JOB, digest, size, file)
    [copy] = (tmp_path / "copies").glob("*/*")
    corrupt(copy)
    assert not copies.take(JOB, digest, size, tmp_path / "taken")
    assert not copy.exists()
    assert not (tmp_path / "taken").exists()


def test_files_of_the_last_two_snapshots_are_kept(tmp_path: Path) -> None:
    copies = LocalCopies(tmp_path / "copies")
    files = [made(tmp_path / "files", b"%d" % number) for number in range(4)]
    other = made(tmp_path / "files", b"other")
    copies.add(OTHER, other[1], other[2], other[0])
    for file, digest, size in files:
        copies.add(JOB, digest, size, file)
        copies.completed(JOB, [(digest, size)])
    kept = [copies.take(JOB, *files[n][1:], tmp_path / f"taken {n}") for n in range(4)]
    assert kept == [False, False, True, True]
    assert copies.take(OTHER, *other[1:], tmp_path / "taken other")


def test_copies_go_with_the_executors_folder(tmp_path: Path) -> None:
    directory = ServerDirectory(tmp_path / "executor")
    directory.make()
    file, digest, size = made(tmp_path / "files", b"content")
    LocalCopies(directory.copies).add(JOB, digest, size, file)
    directory.scratch.mkdir()
    assert directory.remove()
    assert not directory.path.exists()
