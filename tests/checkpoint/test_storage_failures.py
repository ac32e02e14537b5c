"""What fails says where, why, and what to do."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest
from s3fs import S3FileSystem

from queryable_state.server.checkpoint.file_systems.local_storage import LocalStorage
from queryable_state.server.checkpoint.file_systems.storage_errors import translating
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.wire.errors import CheckpointError, RetryLaterError

if TYPE_CHECKING:
    from pathlib import Path


def run(program: str) -> str:
    """What a Python program prints."""
    arguments = [sys.executable, "-c", textwrap.dedent(program)]
    return subprocess.run(arguments, capture_output=True, text=True, check=True).stdout


def test_a_folder_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(CheckpointError, match="is a file, not a folder: choose another") as refusal:
        LocalStorage().check_writable(f"{tmp_path}/file/root")
    assert f"{tmp_path}/file/root" in refusal.value.message


def test_a_write_beyond_a_limit_is_refused_and_leaves_the_old_file(tmp_path: Path) -> None:
    """In a process of its own: the limit cannot be raised again."""
    path = tmp_path / "folder" / "file"
    storage = LocalStorage()
    storage.write(str(path), b"old")
    program = f"""
        import resource
        from queryable_state.server.checkpoint.file_systems.local_storage import LocalStorage
        from queryable_state.wire.errors import CheckpointError
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        try:
            LocalStorage().write({str(path)!r}, bytes(2000))
        except CheckpointError as error:
            print(error)
    """
    done = run(program)
    assert f"cannot write {path}: the file is larger than" in done
    assert "allow more" in done
    assert storage.read(str(path)) == b"old"
    assert [child.name for child in path.parent.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("number", "kind", "text"),
    [
        (errno.ENOSPC, CheckpointError, "no space is left: free some"),
        (errno.EDQUOT, CheckpointError, "no space is left: free some"),
        (errno.EACCES, CheckpointError, "permission denied .* to user"),
        (errno.EROFS, CheckpointError, "mounted read-only"),
        (errno.EIO, CheckpointError, "check the file system"),
        (errno.ETIMEDOUT, RetryLaterError, "at the moment"),
        (errno.EMFILE, RetryLaterError, "at the moment"),
    ],
)
def test_each_failure_of_a_system_call_has_its_advice(
    number: int, kind: type[Exception], text: str
) -> None:
    with pytest.raises(kind, match=text) as refusal, translating("/root/file", "write"):
        raise OSError(number, os.strerror(number), "/root/.writing-1")
    assert "cannot write /root/file" in str(refusal.value)


def test_a_folder_without_permission_is_refused(tmp_path: Path) -> None:
    """In a process of its own, which gives up root's rights: those have no bounds."""
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    program = f"""
        import os
        from queryable_state.server.checkpoint.file_systems.local_storage import LocalStorage
        from queryable_state.wire.errors import CheckpointError
        if os.geteuid() == 0:
            os.setuid(65534)
        try:
            LocalStorage().check_writable({str(folder)!r})
        except CheckpointError as error:
            print(error)
    """
    done = run(program)
    assert f"cannot store state in {folder}: cannot write {folder}/.check-" in done
    assert "permission denied" in done
    assert "allow it to read and write there" in done


def test_what_is_no_file_may_be_listed_but_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(CheckpointError, match="it is a folder, not a file"):
        LocalStorage().write(f"{tmp_path}/folder", b"x")
    assert [child.name for child in tmp_path.iterdir()] == ["folder"]


def test_a_missing_bucket_is_named(s3_options: dict[str, Any], tmp_path: Path) -> None:
    storage = storage_of("s3://no-such-bucket/root", s3_options)
    (tmp_path / "file").write_bytes(b"x")
    for ask in (
        lambda: storage.write("s3://no-such-bucket/root/x", b"x"),
        lambda: storage.create("s3://no-such-bucket/root/x", b"x"),
        lambda: storage.upload(tmp_path / "file", "s3://no-such-bucket/root/x"),
        lambda: storage.list("s3://no-such-bucket/root"),
        lambda: storage.walk("s3://no-such-bucket/root"),
        lambda: storage.check_writable("s3://no-such-bucket/root"),
    ):
        with pytest.raises(CheckpointError, match="there is no such bucket: create it"):
            ask()


def test_an_s3_server_that_does_not_answer_may_do_so_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(S3FileSystem, "retries", 1)
    options = {
        "endpoint_url": "http://127.0.0.1:9",
        "key": "x",
        "secret": "x",
        "config_kwargs": {"connect_timeout": 1, "retries": {"max_attempts": 0}},
    }
    storage = storage_of("s3://states/root", options)
    with pytest.raises(RetryLaterError, match="s3://states/root/x at the moment"):
        storage.write("s3://states/root/x", b"x")
    with pytest.raises(CheckpointError, match=r"cannot store state in s3:.*root: .*//127.0.0.1:9/"):
        storage.check_writable("s3://states/root")


def test_s3_without_credentials_says_where_to_give_them(
    s3_endpoint: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    storage = storage_of("s3://states/root", {"endpoint_url": s3_endpoint})
    with pytest.raises(CheckpointError, match=r"no credentials .* storage options"):
        storage.write("s3://states/root/x", b"x")


def test_a_bucket_is_never_removed(s3_options: dict[str, Any]) -> None:
    with pytest.raises(CheckpointError, match="whole bucket"):
        storage_of("s3://states", s3_options).delete_tree("s3://states/")


def test_options_of_the_wrong_kind_are_told() -> None:
    with pytest.raises(CheckpointError, match="s3://states/root"):
        storage_of("s3://states/root", {"no_such_option": 1}).write("s3://states/root/x", b"")


def test_files_of_killed_writers_are_not_listed(tmp_path: Path) -> None:
    storage = LocalStorage(fsync=True)
    storage.write(f"{tmp_path}/folder/file", b"x")
    (tmp_path / "folder" / ".writing-0123").write_bytes(b"half")
    assert storage.list(f"{tmp_path}/folder") == ["file"]
    assert [entry.path for entry in storage.walk(str(tmp_path))] == ["folder/file"]


def test_links_are_copied_where_there_are_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.EXDEV, "another disk")

    monkeypatch.setattr(type(tmp_path), "hardlink_to", refuse)
    storage = LocalStorage()
    (tmp_path / "up").write_bytes(b"content")
    storage.upload(tmp_path / "up", f"{tmp_path}/root/file")
    storage.download(f"{tmp_path}/root/file", tmp_path / "down")
    assert (tmp_path / "down").read_bytes() == b"content"
    assert storage.create(f"{tmp_path}/root/epoch", b"1")
    assert not storage.create(f"{tmp_path}/root/epoch", b"2")
    assert storage.read(f"{tmp_path}/root/epoch") == b"1"
    assert storage.list(f"{tmp_path}/root") == ["epoch", "file"]
