"""Interface of durable storage, and paths and checksums of its files.

Paths are absolute URIs (`file:///x`, `/x`, `s3://bucket/x`, `driver:/x`), made with `join`.
"""

from __future__ import annotations

import uuid
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from xxhash import xxh3_128

from queryable_state.wire.errors import CheckpointError, QueryableStateError, Reason

if TYPE_CHECKING:
    from pathlib import Path

DRIVER_SCHEME = "driver:"
CHECK_PREFIX = ".check-"

_READ_BYTES = 1 << 20


class MissingFileError(CheckpointError):
    """The file does not exist."""


@dataclass(frozen=True, slots=True)
class FileEntry:
    """A file below a folder."""

    path: str
    """Relative to the listed folder, with slashes."""

    size_bytes: int


FileEntries = list[FileEntry]


class ObjectStore(Protocol):
    """Files in the driver's memory, under `driver:` roots; thread-safe."""

    def put(self, path: str, data: bytes, exclusive: bool) -> bool:
        """Stores a file; returns False and stores nothing if `exclusive` and the file exists."""
        ...

    def get(self, path: str) -> bytes | None:
        """The file; None if it does not exist."""
        ...

    def list(self, prefix: str) -> list[tuple[str, int]]:
        """Paths that start with `prefix`, with their sizes."""
        ...

    def delete(self, path: str) -> None:
        """Removes a file if it exists."""
        ...


class CheckpointStorage(ABC):
    """The files of one file system. Blocking; usable from every thread.

    Every failure is a CheckpointError with the URI and what to do; a temporary failure (a
    timeout, a busy server) is a RetryLaterError.
    """

    @abstractmethod
    def read(self, path: str) -> bytes:
        """All bytes of a file; raises MissingFileError if it does not exist."""

    @abstractmethod
    def write(self, path: str, data: bytes) -> None:
        """Writes or replaces a file atomically and makes missing folders."""

    def write_private(self, path: str, data: bytes) -> None:
        """As `write`; on a local disk only the user of this process can read the file.

        Who reads the files of an object store is a matter of its own policies.
        """
        self.write(path, data)

    @abstractmethod
    def create(self, path: str, data: bytes) -> bool:
        """Writes a file unless it exists; of concurrent callers only one gets True."""

    @abstractmethod
    def exists(self, path: str) -> bool:
        """True for a file, and for a folder with files."""

    @abstractmethod
    def size(self, path: str) -> int:
        """Bytes of a file; raises MissingFileError if it does not exist."""

    @abstractmethod
    def modified_ms(self, path: str) -> int:
        """When a file was last written, in epoch milliseconds; raises MissingFileError."""

    @abstractmethod
    def list(self, folder: str) -> list[str]:
        """Sorted names of the files and folders in a folder; empty if it does not exist."""

    @abstractmethod
    def walk(self, folder: str) -> FileEntries:
        """All files below a folder, by path; empty if it does not exist."""

    @abstractmethod
    def delete(self, path: str) -> None:
        """Removes a file if it exists."""

    @abstractmethod
    def delete_tree(self, folder: str) -> None:
        """Removes a folder and all files below it, if it exists."""

    @abstractmethod
    def upload(self, local: Path, path: str) -> None:
        """Writes a local file atomically, as `write` does. `local` must not change afterwards.

        On the same disk it makes a hard link instead of a copy.
        """

    @abstractmethod
    def download(self, path: str, local: Path) -> None:
        """Writes a file to `local`, which may be removed but not changed afterwards.

        The folder of `local` must exist, `local` must not. On the same disk it makes a hard link.
        """

    def check_writable(self, folder: str) -> None:
        """Writes, reads and removes a small file; raises CheckpointError if that fails."""
        probe = join(folder, f"{CHECK_PREFIX}{uuid.uuid4().hex}")
        try:
            self.write(probe, probe.encode())
            same = self.read(probe) == probe.encode()
            self.delete(probe)
        except QueryableStateError as problem:
            raise CheckpointError(
                f"cannot store state in {folder}: {problem}", reason=Reason.STORAGE_WRITE_FAILED
            ) from problem
        if not same:
            raise CheckpointError(
                f"cannot store state in {folder}: reading a file right after writing it gave other "
                "bytes: use a file system with read-after-write consistency"
            )


def is_local(uri: str) -> bool:
    """True if a URI names a file on a local or mounted disk."""
    return uri.startswith("file:") or not ("://" in uri or uri.startswith(DRIVER_SCHEME))


def join(root: str, *names: str) -> str:
    """Joins a root, with or without a slash at its end, and names below it."""
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
