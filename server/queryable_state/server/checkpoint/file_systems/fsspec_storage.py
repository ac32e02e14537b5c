"""Storage on S3 and the other file systems of fsspec."""

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
from queryable_state.server.checkpoint.file_systems.storage_errors import translating
from queryable_state.wire.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

# Hadoop's names of S3.
_ALIASES = {"s3a": "s3", "s3n": "s3"}

# These make a file visible when its upload ends; on others it is renamed into place.
_ATOMIC = frozenset({"s3", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "memory"})
# These cache listings and would miss files that other processes write.
_LISTINGS_CACHED = frozenset({"s3", "gs", "gcs", "abfs", "abfss", "az"})
_PACKAGES = {"s3": "'spark-queryable-state[s3]'"}

_PATTERN = frozenset("*?[")
_WRITING = ".writing-"
_CONFLICTS = 10
_CONNECTIONS = 64


class FsspecStorage(CheckpointStorage):
    """Storage on a file system of fsspec, such as S3.

    `create` is exclusive by a conditional put on S3 and Google Storage. On a file system
    without one it checks first, so that two writers within one request may both succeed.
    """

    def __init__(self, file_system: Any, scheme: str) -> None:
        self._files = file_system
        self._atomic = scheme in _ATOMIC
        self._scheme = scheme
        # s3fs asks for the size first, to read large files in parallel: two requests for each.
        self._read_options = {"max_concurrency": 1} if scheme == "s3" else {}

    @classmethod
    def of(cls, uri: str, options: Mapping[str, Any]) -> FsspecStorage:
        """The storage of a URI, with fsspec's options for it."""
        scheme = _scheme(uri)
        settings: dict[str, Any] = dict(options)
        if scheme in _LISTINGS_CACHED:
            settings["use_listings_cache"] = False
        try:
            cls_of_scheme = fsspec.get_filesystem_class(scheme)
        except ValueError as problem:
            raise CheckpointError(
                f"the scheme {scheme!r} of {uri} is unknown: write file:///folder, "
                "s3://bucket/folder, or another scheme that fsspec knows"
            ) from problem
        except ImportError as problem:
            package = _PACKAGES.get(scheme)
            advice = f"pip install {package}" if package else str(problem)
            raise CheckpointError(
                f"{uri} needs a package that is not installed: {advice}"
            ) from problem
        if scheme == "s3":
            # Else threads beyond the tenth wait for a connection.
            config = {"max_pool_connections": _CONNECTIONS, **settings.get("config_kwargs", {})}
            settings["config_kwargs"] = config
        with translating(uri, "open the file system of"):
            settings = {**cls_of_scheme._get_kwargs_from_urls(_fsspec_uri(uri)), **settings}
            return cls(fsspec.filesystem(scheme, **settings), scheme)

    def read(self, path: str) -> bytes:
        with translating(path, "read"):
            return bytes(self._files.cat_file(_fsspec_uri(path), **self._read_options))

    def write(self, path: str, data: bytes) -> None:
        with translating(path, "write"):
            for target in self._targets(path):
                self._files.pipe_file(target, data)

    def create(self, path: str, data: bytes) -> bool:
        with translating(path, "create"):
            if not self._atomic:
                if self._files.exists(_fsspec_uri(path)):
                    return False
                for target in self._targets(path):
                    self._files.pipe_file(target, data)
                return True
            for _ in range(_CONFLICTS):
                try:
                    self._files.pipe_file(_fsspec_uri(path), data, mode="create")
                except FileExistsError:
                    return False
                except OSError as problem:
                    if not _is_conflict(problem):
                        raise
                    # Another writer is writing the same path; the retry finds its file.
                    continue
                return True
            raise OSError(errno.EBUSY, "other processes keep writing it at the same time")

    def exists(self, path: str) -> bool:
        with translating(path, "find"):
            self._files.invalidate_cache()
            return bool(self._files.exists(_fsspec_uri(path)))

    def size(self, path: str) -> int:
        with translating(path, "get the size of"):
            found = self._files.info(_fsspec_uri(path))
            if found["type"] != "file":
                raise FileNotFoundError(errno.ENOENT, "it is a folder", path)
            return int(found["size"])

    def modified_ms(self, path: str) -> int:
        with translating(path, "get the time of"):
            return int(self._files.modified(_fsspec_uri(path)).timestamp() * 1000)

    def list(self, folder: str) -> list[str]:
        with translating(folder, "list"):
            top = self._stripped(folder)
            try:
                self._files.invalidate_cache()
                found = self._files.ls(top, detail=False)
            except (FileNotFoundError, NotADirectoryError) as problem:
                _raise_if_missing_bucket(problem)
                return []
            names = {
                str(each).rstrip("/")[len(top) + 1 :]
                for each in found
                if str(each).rstrip("/").startswith(f"{top}/")
            }
            return sorted(name for name in names if not name.startswith(_WRITING))

    def walk(self, folder: str) -> FileEntries:
        with translating(folder, "list"):
            top = self._stripped(folder)
            try:
                self._files.invalidate_cache()
                found = self._files.find(top, detail=True)
            except (FileNotFoundError, NotADirectoryError) as problem:
                _raise_if_missing_bucket(problem)
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
        with translating(path, "remove"):
            try:
                self._files.rm_file(_fsspec_uri(path))
            except FileNotFoundError as problem:
                _raise_if_missing_bucket(problem)

    def delete_tree(self, folder: str) -> None:
        with translating(folder, "remove"):
            if "/" not in self._stripped(folder).strip("/"):
                raise CheckpointError(
                    f"cannot remove {folder}: it is a whole bucket: name a folder in it"
                )
            try:
                self._files.invalidate_cache()
                if _PATTERN.isdisjoint(folder):
                    self._files.rm(_fsspec_uri(folder), recursive=True)
                    return
                # fsspec would take the path for a pattern and remove all matches.
                for file in self._files.find(self._stripped(folder)):
                    self._files.rm_file(file)
            except FileNotFoundError as problem:
                _raise_if_missing_bucket(problem)

    def upload(self, local: Path, path: str) -> None:
        with translating(path, "write"):
            for target in self._targets(path):
                self._files.put_file(str(local), target)

    def download(self, path: str, local: Path) -> None:
        with translating(path, "read"):
            try:
                self._files.get_file(_fsspec_uri(path), str(local))
            except BaseException:
                local.unlink(missing_ok=True)
                raise

    def _stripped(self, path: str) -> str:
        return str(self._files._strip_protocol(_fsspec_uri(path))).rstrip("/")

    def _targets(self, path: str) -> Iterator[str]:
        """Yields the path to write; then renames the written file into place if needed."""
        target = _fsspec_uri(path)
        if self._atomic:
            yield target
            return
        folder = target.rpartition("/")[0]
        self._files.makedirs(folder, exist_ok=True)
        temporary = f"{folder}/{_WRITING}{uuid.uuid4().hex}"
        yield temporary
        if self._files.exists(target):
            # Some file systems do not rename onto an existing file.
            self._files.rm_file(target)
        self._files.mv(temporary, target)


def _scheme(uri: str) -> str:
    scheme = uri.partition("://")[0]
    return _ALIASES.get(scheme, scheme)


def _fsspec_uri(uri: str) -> str:
    """The URI with fsspec's name of its scheme."""
    scheme, separator, rest = uri.partition("://")
    return f"{_ALIASES.get(scheme, scheme)}{separator}{rest}"


def _is_conflict(problem: OSError) -> bool:
    response = getattr(problem.__cause__, "response", None)
    code = response.get("Error", {}).get("Code") if isinstance(response, dict) else ""
    return code in ("ConditionalRequestConflict", "OperationAborted", "409")


def _raise_if_missing_bucket(problem: OSError) -> None:
    """Raises for a missing bucket, which is an error; a missing folder is only empty."""
    response = getattr(problem.__cause__, "response", None)
    if isinstance(response, dict) and response.get("Error", {}).get("Code") == "NoSuchBucket":
        raise problem
