"""What every storage promises, on local disks, in the driver, on S3 and over fsspec."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from queryable_state.server.checkpoint.file_systems.storage import (
    FileEntry,
    MissingFileError,
    checksum,
    file_checksum,
    join,
)
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.wire.errors import CheckpointError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.checkpoint.conftest import Place

DATA = b"\x00\xff" * 700


def test_what_is_written_is_read_by_another(place: Place) -> None:
    path = join(place.uri, "a", "b/", "file")
    place.storage.write(path, DATA)
    assert place.storage.read(path) == DATA
    assert place.storage.size(path) == len(DATA)
    assert place.storage.exists(path)
    assert place.storage.exists(join(place.uri, "a"))


def test_a_file_is_replaced_as_a_whole(place: Place) -> None:
    path = join(place.uri, "file")
    place.storage.write(path, DATA)
    place.storage.write(path, b"")
    assert place.storage.read(path) == b""


def test_of_many_creators_one_wins(place: Place) -> None:
    path = join(place.uri, "epochs/00000001")
    storage = place.storage

    def create(number: int) -> bool:
        return storage.create(path, b"by %d" % number)

    with ThreadPoolExecutor(4) as threads:
        won = list(threads.map(create, range(4) if _is_exclusive(place) else range(1)))
    assert won.count(True) == 1
    assert storage.read(path) == b"by %d" % won.index(True)
    assert not storage.create(path, b"late")
    assert storage.read(path) == b"by %d" % won.index(True)


def _is_exclusive(place: Place) -> bool:
    """Whether the file system itself can tell writers apart."""
    return not place.uri.startswith(("local:", "memory:"))


def test_a_missing_file_is_named(place: Place) -> None:
    path = join(place.uri, "no", "file")
    for ask in (place.storage.read, place.storage.size):
        with pytest.raises(MissingFileError, match="no/file"):
            ask(path)
    assert not place.storage.exists(path)


def test_a_folder_is_no_file(place: Place) -> None:
    place.storage.write(join(place.uri, "folder/file"), DATA)
    with pytest.raises(CheckpointError, match="folder"):
        place.storage.size(join(place.uri, "folder"))
    with pytest.raises(CheckpointError, match="folder"):
        place.storage.read(join(place.uri, "folder"))


def test_folders_are_listed_by_name_and_walked_by_path(place: Place) -> None:
    storage = place.storage
    for path in ("chk-1/b/x", "chk-1/a", "chk-10/c", "_metadata"):
        storage.write(join(place.uri, path), path.encode())
    assert storage.list(place.uri) == ["_metadata", "chk-1", "chk-10"]
    assert storage.list(join(place.uri, "chk-1/")) == ["a", "b"]
    assert storage.list(join(place.uri, "chk-1/a")) == []
    assert storage.list(join(place.uri, "chk-2")) == []
    assert storage.walk(join(place.uri, "chk-1")) == [FileEntry("a", 7), FileEntry("b/x", 9)]
    assert storage.walk(join(place.uri, "chk-2")) == []
    assert [entry.path for entry in storage.walk(place.uri)] == [
        "_metadata",
        "chk-1/a",
        "chk-1/b/x",
        "chk-10/c",
    ]


def test_what_is_removed_is_gone_and_may_be_removed_again(place: Place) -> None:
    storage = place.storage
    for path in ("chk-1/b/x", "chk-1/a", "chk-10/c"):
        storage.write(join(place.uri, path), DATA)
    for _ in range(2):
        storage.delete(join(place.uri, "chk-1/a"))
        assert storage.list(join(place.uri, "chk-1")) == ["b"]
    for _ in range(2):
        storage.delete_tree(join(place.uri, "chk-1"))
        assert storage.list(place.uri) == ["chk-10"]


def test_a_folder_is_no_pattern_for_others_when_it_is_removed(place: Place) -> None:
    named, others = join(place.uri, "team[ab]*?"), ("teama", "teamab", "teamaXY")
    for folder in (named, *(join(place.uri, other) for other in others)):
        place.storage.write(join(folder, "chk-1", "uid", "file"), DATA)
    place.storage.delete_tree(join(named, "chk-1"))
    assert place.storage.walk(join(named, "chk-1")) == []
    for other in others:
        assert place.storage.exists(join(place.uri, other, "chk-1/uid/file"))


def test_another_writers_files_show_at_once(place: Place) -> None:
    seen = place.storage
    assert seen.list(place.uri) == []
    place.storage.write(join(place.uri, "folder/file"), DATA)
    assert seen.list(place.uri) == ["folder"]
    place.storage.delete_tree(join(place.uri, "folder"))
    assert seen.walk(place.uri) == []


def test_local_files_go_up_and_come_down(place: Place, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    (disk / "up").write_bytes(DATA)
    path = join(place.uri, "shared/file")
    for _ in range(2):
        place.storage.upload(disk / "up", path)
    assert place.storage.list(join(place.uri, "shared")) == ["file"]
    place.storage.download(path, disk / "down")
    assert (disk / "down").read_bytes() == DATA
    assert file_checksum(disk / "down") == checksum(DATA)
    with pytest.raises(MissingFileError, match="no/file"):
        place.storage.download(join(place.uri, "no/file"), disk / "missing")
    assert not (disk / "missing").exists()


def test_a_writable_folder_passes_the_check_and_keeps_nothing_of_it(place: Place) -> None:
    folder = join(place.uri, "fresh")
    place.storage.check_writable(folder)
    assert place.storage.walk(folder) == []


def test_the_checksum_is_pinned() -> None:
    assert checksum(b"abc").hex() == "06b05ab6733a618578af5f94892f3950"


@pytest.mark.parametrize(
    ("uri", "text"),
    [
        ("relative/folder", "no absolute path"),
        ("file://otherhost/x", "names the host 'otherhost'"),
        ("nowhere://x/y", "the scheme 'nowhere' of nowhere:..x.y is unknown"),
        ("driver:/job", "memory of the job's driver"),
        ("dropbox://x/y", "dropbox"),
    ],
)
def test_a_uri_that_cannot_work_is_refused(uri: str, text: str) -> None:
    with pytest.raises(CheckpointError, match=text):
        storage_of(uri)
