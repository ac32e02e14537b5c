"""Files of S3 and of what else fsspec reaches by a URI."""

from __future__ import annotations

import errno
import uuid
from typing import TYPE_CHECKING, Any

import fsspec

from queryable_state.server.checkpoint.file_systems.storage import (
    CheckpointStorage,
    FileEntries,
    FileEntry,
)
from queryable_state.server.checkpoint.file_systems.storage_errors import naming
from queryable_state.wire.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

# Hadoop's names of S3.
_SAME = {"s3a": "s3", "s3n": "s3"}

# Here a file appears whole when its upload ends; elsewhere it is renamed into place.
_WHOLE_AT_ONCE = frozenset({"s3", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "memory"})
# What others write must show: these would answer from listings they remember.
_LISTINGS_REMEMBERED = frozenset({"s3", "gs", "gcs", "abfs", "abfss", "az"})
_PACKAGES = {"s3": "'spark-queryable-state[s3]'"}

_PATTERN = frozenset("*?[")
_WRITING = ".writing-"
_CONFLICTS = 10


class FsspecStorage(CheckpointStorage):
    """One fsspec file system.

    `create` is exclusive by a conditional put on S3 and Google Storage; a file system that cannot
    do so tells two writers apart by looking first, which leaves a gap of one request.
    """

    def __init__(self, file_system: Any, scheme: str) -> None:
        self._files = file_system
        self._whole_at_once = scheme in _WHOLE_AT_ONCE
        self._scheme = scheme

    @classmethod
    def of(cls, uri: str, options: Mapping[str, Any]) -> FsspecStorage:
        """The file system of a URI, with fsspec's options for it."""
        scheme = _scheme(uri)
        settings: dict[str, Any] = dict(options)
        if scheme in _LISTINGS_REMEMBERED:
            settings["use_listings_cache"] = False
        try:
            cls_of_scheme = fsspec.get_filesystem_class(scheme)
        except ValueError as problem:
            raise CheckpointError(
                f"{uri} is of no file system known here: {scheme!r}; write file:///folder, "
                "s3://bucket/folder, or another scheme that fsspec knows"
            ) from problem
        except ImportError as problem:
            package = _PACKAGES.get(scheme)
            advice = f"pip install {package}" if package else str(problem)
            raise CheckpointError(
                f"{uri} needs a package that is not installed: {advice}"
            ) from problem
        with naming(uri, "open the file system of"):
            settings = {**cls_of_scheme._get_kwargs_from_urls(_spelled(uri)), **settings}
            return cls(fsspec.filesystem(scheme, **settings), scheme)

    def read(self, path: str) -> bytes:
        with naming(path, "read"):
            return bytes(self._files.cat_file(_spelled(path)))

    def write(self, path: str, data: bytes) -> None:
        with naming(path, "write"):
            for target in self._targets(path):
                self._files.pipe_file(target, data)

    def create(self, path: str, data: bytes) -> bool:
        with naming(path, "create"):
            if not self._whole_at_once:
                if self._files.exists(_spelled(path)):
                    return False
                for target in self._targets(path):
                    self._files.pipe_file(target, data)
                return True
            for _ in range(_CONFLICTS):
                try:
                    self._files.pipe_file(_spelled(path), data, mode="create")
                except FileExistsError:
                    return False
                except OSError as problem:
                    if not _is_conflict(problem):
                        raise
                    # Another writer of the same path is under way: one of both will be first.
                    continue
                return True
            raise OSError(errno.EBUSY, "others write it at the same time again and again")

    def exists(self, path: str) -> bool:
        with naming(path, "look at"):
            self._files.invalidate_cache()
            return bool(self._files.exists(_spelled(path)))

    def size(self, path: str) -> int:
        with naming(path, "look at"):
            found = self._files.info(_spelled(path))
            if found["type"] != "file":
                raise FileNotFoundError(errno.ENOENT, "it is a folder", path)
            return int(found["size"])

    def list(self, folder: str) -> list[str]:
        with naming(folder, "list"):
            top = self._stripped(folder)
            try:
                self._files.invalidate_cache()
                found = self._files.ls(top, detail=False)
            except (FileNotFoundError, NotADirectoryError) as problem:
                _unless_missing_bucket(problem)
                return []
            names = {
                str(each).rstrip("/")[len(top) + 1 :]
                for each in found
                if str(each).rstrip("/").startswith(f"{top}/")
            }
            return sorted(name for name in names if not name.startswith(_WRITING))

    def walk(self, folder: str) -> FileEntries:
        with naming(folder, "list"):
            top = self._stripped(folder)
            try:
                self._files.invalidate_cache()
                found = self._files.find(top, detail=True)
            except (FileNotFoundError, NotADirectoryError) as problem:
                _unless_missing_bucket(problem)
                return []
            entries = [
                FileEntry(name[len(top) + 1 :], int(entry["size"] or 0))
                for name, entry in found.items()
                if name.startswith(f"{top}/") and entry["type"] == "file"
            ]
            return sorted(
                (entry for entry in entries if _WRITING not in entry.path),
                key=lambda entry: entry.path,
            )

    def delete(self, path: str) -> None:
        with naming(path, "remove"):
            try:
                self._files.rm_file(_spelled(path))
            except FileNotFoundError as problem:
                _unless_missing_bucket(problem)

    def delete_tree(self, folder: str) -> None:
        with naming(folder, "remove"):
            if "/" not in self._stripped(folder).strip("/"):
                raise CheckpointError(f"{folder} is a whole bucket, which is never removed")
            try:
                self._files.invalidate_cache()
                if _PATTERN.isdisjoint(folder):
                    self._files.rm(_spelled(folder), recursive=True)
                    return
                # fsspec would remove what matches the path.
                for file in self._files.find(self._stripped(folder)):
                    self._files.rm_file(file)
            except FileNotFoundError as problem:
                _unless_missing_bucket(problem)

    def upload(self, local: Path, path: str) -> None:
        with naming(path, "write"):
            for target in self._targets(path):
                self._files.put_file(str(local), target)

    def download(self, path: str, local: Path) -> None:
        with naming(path, "read"):
            try:
                self._files.get_file(_spelled(path), str(local))
            except BaseException:
                local.unlink(missing_ok=True)
                raise

    def _stripped(self, path: str) -> str:
        return str(self._files._strip_protocol(_spelled(path))).rstrip("/")

    def _targets(self, path: str) -> Iterator[str]:
        """Where to write a file, once; where it has to be renamed, that follows."""
        spelled = _spelled(path)
        if self._whole_at_once:
            yield spelled
            return
        folder = spelled.rpartition("/")[0]
        self._files.makedirs(folder, exist_ok=True)
        prepared = f"{folder}/{_WRITING}{uuid.uuid4().hex}"
        yield prepared
        if self._files.exists(spelled):
            # Some do not rename onto a file.
            self._files.rm_file(spelled)
        self._files.mv(prepared, spelled)


def _scheme(uri: str) -> str:
    scheme = uri.partition("://")[0]
    return _SAME.get(scheme, scheme)


def _spelled(uri: str) -> str:
    """A URI as fsspec spells it."""
    scheme, separator, rest = uri.partition("://")
    return f"{_SAME.get(scheme, scheme)}{separator}{rest}"


def _is_conflict(problem: OSError) -> bool:
    response = getattr(problem.__cause__, "response", None)
    code = response.get("Error", {}).get("Code") if isinstance(response, dict) else ""
    return code in ("ConditionalRequestConflict", "OperationAborted", "409")


def _unless_missing_bucket(problem: OSError) -> None:
    """A folder that is not there is empty; a bucket that is not there is a mistake."""
    response = getattr(problem.__cause__, "response", None)
    if isinstance(response, dict) and response.get("Error", {}).get("Code") == "NoSuchBucket":
        raise problem
