"""Where durable files live: one interface over local disks, S3 and what else fsspec reaches.

Paths are whole URIs (`file:///x`, `/x`, `s3://bucket/x`, `driver:/x`), made with `join`.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from xxhash import xxh3_128

from queryable_state.wire.errors import CheckpointError, QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

DRIVER_SCHEME = "driver:"
CHECK_PREFIX = ".check-"

_READ_BYTES = 1 << 20


class MissingFileError(CheckpointError):
    """There is no such file."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file below a folder."""

    path: str
    """Relative to the folder asked for, with slashes."""

    size_bytes: int


FileEntries = list[FileEntry]


class ObjectStore(Protocol):
    """Files by name in the driver's memory, under `driver:` roots; thread-safe."""

    def put(self, path: str, data: bytes, exclusive: bool) -> bool:
        """Stores a file; False, and nothing stored, where `exclusive` and the path is taken."""
        ...

    def get(self, path: str) -> bytes | None:
        """The file; None: there is none."""
        ...

    def list(self, prefix: str) -> list[tuple[str, int]]:
        """Paths that start with `prefix`, with their sizes."""
        ...

    def delete(self, path: str) -> None:
        """Removes a file, if it is there."""
        ...


class CheckpointStorage(ABC):
    """The files of one file system. Blocking; usable from every thread.

    Every failure is a CheckpointError that names the URI and what to do; what may pass
    by itself (a time out, a server that is busy) is a RetryLaterError.
    """

    @abstractmethod
    def read(self, path: str) -> bytes:
        """All bytes of a file; MissingFileError where there is none."""

    @abstractmethod
    def write(self, path: str, data: bytes) -> None:
        """Writes or replaces a file, making folders as needed: nobody ever sees half of it."""

    @abstractmethod
    def create(self, path: str, data: bytes) -> bool:
        """Writes a file unless there is one: of several at once one gets True, all others False."""

    @abstractmethod
    def exists(self, path: str) -> bool:
        """Whether there is a file, or a folder that has one."""

    @abstractmethod
    def size(self, path: str) -> int:
        """Bytes of a file; MissingFileError where there is none."""

    @abstractmethod
    def list(self, folder: str) -> list[str]:
        """Names of the files and folders right in a folder, sorted; none where it is not there."""

    @abstractmethod
    def walk(self, folder: str) -> FileEntries:
        """All files below a folder, by path; none where it is not there."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Removes a file, if it is there."""

    @abstractmethod
    def delete_tree(self, folder: str) -> None:
        """Removes a folder and all below it, if it is there."""

    @abstractmethod
    def upload(self, local: Path, path: str) -> None:
        """Writes a file of this machine's disk; as `write`. `local` must not change afterwards.

        On the same disk it becomes another name of the same file, not a copy.
        """

    @abstractmethod
    def download(self, path: str, local: Path) -> None:
        """A file as one of this machine's disk, which must not be changed, only removed.

        Its folder must exist, it must not. On the same disk it is another name of the same file.
        """

    def check_writable(self, folder: str) -> None:
        """Writes, reads and removes a small file; CheckpointError saying what to do otherwise."""
        probe = join(folder, f"{CHECK_PREFIX}{uuid.uuid4().hex}")
        try:
            self.write(probe, probe.encode())
            same = self.read(probe) == probe.encode()
            self.delete(probe)
        except QueryableStateError as problem:
            raise CheckpointError(f"{folder} cannot keep state: {problem}") from problem
        if not same:
            raise CheckpointError(
                f"{folder} cannot keep state: a file written there was not read back as it was: "
                "use a file system that shows what is written at once"
            )


def storage_of(
    uri: str,
    options: Mapping[str, Any] | None = None,
    *,
    fsync: bool = False,
    objects: ObjectStore | None = None,
) -> CheckpointStorage:
    """The storage a URI is in.

    `options` are those of the fsspec file system (for S3: `endpoint_url`, `key`, `secret`,
    `anon`, `client_kwargs` ...). With `fsync` a file on a local disk survives a power cut once
    it is written. `objects` has the files of `driver:` URIs. CheckpointError for a scheme that
    is unknown here, or whose package is not installed.
    """
    # Imported here: a job on local disks needs no fsspec, and each knows this module.
    if uri.startswith(DRIVER_SCHEME):
        if objects is None:
            raise CheckpointError(
                f"{uri} is in the memory of the job's driver, and gone with it: only the job's own "
                "processes can read it"
            )
        from queryable_state.server.checkpoint.file_systems.object_storage import ObjectStorage

        return ObjectStorage(objects)
    if is_local(uri):
        from queryable_state.server.checkpoint.file_systems.local_storage import (
            LocalStorage,
            local_path,
        )

        local_path(uri)
        return LocalStorage(fsync=fsync)
    from queryable_state.server.checkpoint.file_systems.fsspec_storage import FsspecStorage

    return FsspecStorage.of(uri, options or {})


def is_local(uri: str) -> bool:
    """Whether a URI names a file of a local (or mounted) disk."""
    return uri.startswith("file:") or not ("://" in uri or uri.startswith(DRIVER_SCHEME))


def join(root: str, *names: str) -> str:
    """The path of something below a root; the root's own slash at the end does not count."""
    return "/".join((root.rstrip("/"), *(name.strip("/") for name in names)))


def checksum(data: bytes) -> bytes:
    """XXH3-128, 16 bytes, big-endian."""
    return xxh3_128(data).digest()


def file_checksum(local: Path) -> bytes:
    """`checksum` of a local file's bytes."""
    digest = xxh3_128()
    with local.open("rb") as file:
        while chunk := file.read(_READ_BYTES):
            digest.update(chunk)
    return digest.digest()
