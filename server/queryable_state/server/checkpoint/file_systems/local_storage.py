"""Storage on a local or mounted disk: writes are atomic by rename, creates exclusive by link."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from queryable_state.server.checkpoint.file_systems.storage import (
    CheckpointStorage,
    FileEntries,
    FileEntry,
)
from queryable_state.server.checkpoint.file_systems.storage_errors import translating
from queryable_state.wire.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterator

# Prefix of temporary files; a killed writer leaves its file behind.
_WRITING = ".writing-"

# Errors of a disk without hard links, or across two disks: the bytes are copied instead.
_NO_LINK = frozenset(
    {errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP}
)
_ATTEMPTS = 5


def local_path(uri: str) -> Path:
    """The path of a local URI: `/x`, `file:/x` or `file:///x`; raises CheckpointError for others.

    Percent signs are literal, as in Hadoop's and fsspec's paths.
    """
    text = uri
    if text.startswith("file:"):
        text = text.removeprefix("file:")
        if text.startswith("//"):
            host, slash, rest = text[2:].partition("/")
            if host not in ("", "localhost"):
                raise CheckpointError(
                    f"{uri} names the host {host!r}: write file:///{host}/... for a path of this "
                    "machine"
                )
            text = slash + rest
    if not text.startswith("/"):
        raise CheckpointError(f"{uri!r} is no absolute path: write /folder or file:///folder")
    return Path(text)


class LocalStorage(CheckpointStorage):
    """Storage on local and mounted file systems.

    A file appears under its name once all its bytes are written; with `fsync` both are then
    forced to disk.
    """

    def __init__(self, *, fsync: bool = False) -> None:
        self._fsync = fsync

    def read(self, path: str) -> bytes:
        with translating(path, "read"):
            return local_path(path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        with translating(path, "write"):
            target = local_path(path)
            with self._temporary(target) as temporary:
                self._fill(temporary, data)
                temporary.replace(target)
            self._sync_folder(target)

    def write_private(self, path: str, data: bytes) -> None:
        with translating(path, "write"):
            target = local_path(path)
            with self._temporary(target) as temporary:
                # The mode holds before the first byte is there.
                temporary.touch(mode=0o600, exist_ok=False)
                self._fill(temporary, data, mode="r+b")
                temporary.replace(target)
            self._sync_folder(target)

    def create(self, path: str, data: bytes) -> bool:
        with translating(path, "create"):
            target = local_path(path)
            with self._temporary(target) as temporary:
                self._fill(temporary, data)
                try:
                    target.hardlink_to(temporary)
                except FileExistsError:
                    return False
                except OSError as problem:
                    if problem.errno not in _NO_LINK:
                        raise
                    return self._create_unlinked(target, data)
            self._sync_folder(target)
            return True

    def exists(self, path: str) -> bool:
        with translating(path, "find"):
            return local_path(path).exists()

    def size(self, path: str) -> int:
        with translating(path, "get the size of"):
            target = local_path(path)
            if target.is_dir():
                raise FileNotFoundError(errno.ENOENT, "it is a folder", path)
            return target.stat().st_size

    def modified_ms(self, path: str) -> int:
        with translating(path, "get the time of"):
            return local_path(path).stat().st_mtime_ns // 1_000_000

    def list(self, folder: str) -> list[str]:
        with translating(folder, "list"):
            try:
                names = [child.name for child in local_path(folder).iterdir()]
            except (FileNotFoundError, NotADirectoryError):
                return []
            return sorted(name for name in names if not name.startswith(_WRITING))

    def walk(self, folder: str) -> FileEntries:
        with translating(folder, "list"):
            top = local_path(folder)
            found = []
            for parent, _, names in os.walk(top, onerror=_raise_unless_missing):
                below = Path(parent)
                for name in names:
                    if name.startswith(_WRITING):
                        continue
                    file = below / name
                    try:
                        size = file.stat().st_size
                    except FileNotFoundError:
                        # Removed after it was listed.
                        continue
                    found.append(FileEntry(file.relative_to(top).as_posix(), size))
            return sorted(found, key=lambda entry: entry.path)

    def delete(self, path: str) -> None:
        with translating(path, "remove"):
            local_path(path).unlink(missing_ok=True)

    def delete_tree(self, folder: str) -> None:
        with translating(folder, "remove"):
            target = local_path(folder)
            for attempt in range(_ATTEMPTS):
                try:
                    shutil.rmtree(target)
                except FileNotFoundError:
                    # The folder is gone, or another process removes it at the same time.
                    if not target.exists():
                        return
                except OSError as problem:
                    # Another process wrote a file meanwhile.
                    if problem.errno != errno.ENOTEMPTY or attempt == _ATTEMPTS - 1:
                        raise
                else:
                    return

    def upload(self, local: Path, path: str) -> None:
        with translating(path, "write"):
            target = local_path(path)
            with self._temporary(target) as temporary:
                self._link_or_copy(local, temporary)
                if self._fsync:
                    _sync(temporary)
                temporary.replace(target)
            self._sync_folder(target)

    def download(self, path: str, local: Path) -> None:
        with translating(path, "read"):
            self._link_or_copy(local_path(path), local)

    @contextmanager
    def _temporary(self, target: Path) -> Iterator[Path]:
        """A temporary path in the target's folder, which it makes; removes the file at the end."""
        temporary = target.with_name(f"{_WRITING}{uuid.uuid4().hex}")
        self._make_folder(target.parent)
        try:
            yield temporary
        finally:
            # A rename of one hard link over another of the same file leaves both.
            temporary.unlink(missing_ok=True)

    def _make_folder(self, folder: Path) -> None:
        missing = []
        if self._fsync:
            ancestor = folder
            while not ancestor.exists():
                missing.append(ancestor)
                ancestor = ancestor.parent
        folder.mkdir(parents=True, exist_ok=True)
        for made in missing:
            _sync(made.parent)

    def _fill(self, file: Path, data: bytes, mode: Literal["xb", "r+b"] = "xb") -> None:
        with file.open(mode) as opened:
            opened.write(data)
            if self._fsync:
                opened.flush()
                os.fsync(opened.fileno())

    def _sync_folder(self, target: Path) -> None:
        if self._fsync:
            _sync(target.parent)

    def _create_unlinked(self, target: Path, data: bytes) -> bool:
        """Creates a file on a disk without links; readers may see a part of it for a moment."""
        try:
            self._fill(target, data)
        except FileExistsError:
            return False
        except OSError:
            target.unlink(missing_ok=True)
            raise
        self._sync_folder(target)
        return True

    @staticmethod
    def _link_or_copy(source: Path, target: Path) -> None:
        try:
            target.hardlink_to(source)
        except OSError as problem:
            if problem.errno not in _NO_LINK:
                raise
            try:
                shutil.copyfile(source, target)
            except OSError:
                target.unlink(missing_ok=True)
                raise


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _raise_unless_missing(problem: OSError) -> None:
    if not isinstance(problem, (FileNotFoundError, NotADirectoryError)):
        raise problem
