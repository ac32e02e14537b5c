"""Files of a local or mounted disk: whole by renaming, exclusive by linking."""

from __future__ import annotations

import errno
import os
import shutil
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint.file_systems.storage import (
    CheckpointStorage,
    FileEntries,
    FileEntry,
)
from queryable_state.server.checkpoint.file_systems.storage_errors import naming
from queryable_state.wire.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterator

# What stands beside a file while it is written; killed writers leave it.
_WRITING = ".writing-"

# Where a disk has no links, or not across these two places, the bytes are copied.
_NO_LINK = frozenset(
    {errno.EXDEV, errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOTSUP, errno.EOPNOTSUPP}
)
_ATTEMPTS = 5


def local_path(uri: str) -> Path:
    """The path of a local URI: `/x`, `file:/x` or `file:///x`; CheckpointError for any other.

    Percent signs stand for themselves, as in Hadoop's and fsspec's paths.
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
    """Paths of this machine.

    A file appears under its name when all its bytes are there. With `fsync` it has then reached
    the disk, and its name, too.
    """

    def __init__(self, *, fsync: bool = False) -> None:
        self._fsync = fsync

    def read(self, path: str) -> bytes:
        with naming(path, "read"):
            return local_path(path).read_bytes()

    def write(self, path: str, data: bytes) -> None:
        with naming(path, "write"):
            target = local_path(path)
            with self._prepared(target) as prepared:
                self._fill(prepared, data)
                prepared.replace(target)
            self._sync_folder(target)

    def create(self, path: str, data: bytes) -> bool:
        with naming(path, "create"):
            target = local_path(path)
            with self._prepared(target) as prepared:
                self._fill(prepared, data)
                try:
                    target.hardlink_to(prepared)
                except FileExistsError:
                    return False
                except OSError as problem:
                    if problem.errno not in _NO_LINK:
                        raise
                    return self._create_unlinked(target, data)
            self._sync_folder(target)
            return True

    def exists(self, path: str) -> bool:
        with naming(path, "look at"):
            return local_path(path).exists()

    def size(self, path: str) -> int:
        with naming(path, "look at"):
            target = local_path(path)
            if target.is_dir():
                raise FileNotFoundError(errno.ENOENT, "it is a folder", path)
            return target.stat().st_size

    def list(self, folder: str) -> list[str]:
        with naming(folder, "list"):
            try:
                names = [child.name for child in local_path(folder).iterdir()]
            except (FileNotFoundError, NotADirectoryError):
                return []
            return sorted(name for name in names if not name.startswith(_WRITING))

    def walk(self, folder: str) -> FileEntries:
        with naming(folder, "list"):
            top = local_path(folder)
            found = []
            for parent, _, names in os.walk(top, onerror=_unless_gone):
                below = Path(parent)
                for name in names:
                    if name.startswith(_WRITING):
                        continue
                    file = below / name
                    try:
                        size = file.stat().st_size
                    except FileNotFoundError:
                        # Removed since it was listed.
                        continue
                    found.append(FileEntry(file.relative_to(top).as_posix(), size))
            return sorted(found, key=lambda entry: entry.path)

    def delete(self, path: str) -> None:
        with naming(path, "remove"):
            local_path(path).unlink(missing_ok=True)

    def delete_tree(self, folder: str) -> None:
        with naming(folder, "remove"):
            target = local_path(folder)
            for attempt in range(_ATTEMPTS):
                try:
                    shutil.rmtree(target)
                except FileNotFoundError:
                    # Either it is gone, or another one removes it at the same time.
                    if not target.exists():
                        return
                except OSError as problem:
                    # Somebody who does not know yet wrote a file meanwhile.
                    if problem.errno != errno.ENOTEMPTY or attempt == _ATTEMPTS - 1:
                        raise
                else:
                    return

    def upload(self, local: Path, path: str) -> None:
        with naming(path, "write"):
            target = local_path(path)
            with self._prepared(target) as prepared:
                self._link_or_copy(local, prepared)
                if self._fsync:
                    _sync(prepared)
                prepared.replace(target)
            self._sync_folder(target)

    def download(self, path: str, local: Path) -> None:
        with naming(path, "read"):
            self._link_or_copy(local_path(path), local)

    @contextmanager
    def _prepared(self, target: Path) -> Iterator[Path]:
        """A free name beside the target, in a folder that is made; nothing is left under it."""
        prepared = target.with_name(f"{_WRITING}{uuid.uuid4().hex}")
        self._make_folder(target.parent)
        try:
            yield prepared
        finally:
            # Renaming one link over another of the same file leaves both.
            prepared.unlink(missing_ok=True)

    def _make_folder(self, folder: Path) -> None:
        missing = []
        if self._fsync:
            above = folder
            while not above.exists():
                missing.append(above)
                above = above.parent
        folder.mkdir(parents=True, exist_ok=True)
        for made in missing:
            _sync(made.parent)

    def _fill(self, file: Path, data: bytes) -> None:
        with file.open("xb") as opened:
            opened.write(data)
            if self._fsync:
                opened.flush()
                os.fsync(opened.fileno())

    def _sync_folder(self, target: Path) -> None:
        if self._fsync:
            _sync(target.parent)

    def _create_unlinked(self, target: Path, data: bytes) -> bool:
        """Exclusive where there are no links; half of the file may be seen for a moment."""
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


def _unless_gone(problem: OSError) -> None:
    if not isinstance(problem, (FileNotFoundError, NotADirectoryError)):
        raise problem
