"""Download of checkpoint files to this machine, verified by their checksums."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.server.checkpoint.file_systems.storage import checksum, file_checksum
from queryable_state.server.checkpoint.layout import resolve
from queryable_state.wire.errors import QueryableStateError, Reason, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from queryable_state.internal.v1.checkpoint_pb2 import StoredFile
    from queryable_state.server.state_server.base.job_files import JobFiles
    from queryable_state.server.state_server.base.local_copies import LocalCopies


class BrokenFilesError(Exception):
    """Files that are missing, unreadable, or differ from what was written."""

    def __init__(self, files: Sequence[coordinator_pb2.BrokenFile]) -> None:
        super().__init__(describe(files))
        self.files = files


class StoredFiles:
    """Downloads files of one job into a folder that is removed when the restore ends.

    A file that this executor still has is linked instead of downloaded.
    """

    def __init__(self, query_id: bytes, copies: LocalCopies, folder: Path) -> None:
        self.downloaded_bytes = 0
        """Bytes read from the root."""
        self.reused_bytes = 0
        """Bytes of files that this executor still had."""
        self._query_id = query_id
        self._copies = copies
        self._folder = folder
        self._numbers = itertools.count()

    async def get(
        self, files: JobFiles, wanted: Sequence[StoredFile], location: str
    ) -> dict[str, Path]:
        """Returns the paths of the files by name; the files are read-only.

        Raises `BrokenFilesError` naming every broken file, and `RetryLaterError` if the
        storage does not answer now.
        """
        paths = [self._folder / str(next(self._numbers)) for _ in wanted]
        results = await asyncio.gather(
            *(
                files.transfer(self._get_one, files, stored, path, location)
                for stored, path in zip(wanted, paths, strict=True)
            ),
            return_exceptions=True,
        )
        raise_first_or_all_broken(results)
        return {stored.name: path for stored, path in zip(wanted, paths, strict=True)}

    def _get_one(self, files: JobFiles, stored: StoredFile, path: Path, location: str) -> None:
        if not stored.path:
            if len(stored.inlined) != stored.size_bytes or (
                checksum(stored.inlined) != stored.checksum
            ):
                raise _broken(f"{location} ({stored.name})", "its bytes fail their checksum")
            path.write_bytes(stored.inlined)
            return
        if self._copies.take(self._query_id, stored.checksum, stored.size_bytes, path):
            self.reused_bytes += stored.size_bytes
            return
        uri = resolve(files.root, stored.path)
        try:
            files.storage.download(uri, path)
        except RetryLaterError:
            raise
        except QueryableStateError as failure:
            if failure.reason == Reason.STORAGE_WRITE_FAILED:
                # The local disk refused the copy; the stored file may be intact.
                raise
            raise _broken(uri, str(failure)) from failure
        size_bytes = path.stat().st_size
        if size_bytes != stored.size_bytes:
            raise _broken(uri, f"it has {size_bytes} bytes instead of {stored.size_bytes}")
        if file_checksum(path) != stored.checksum:
            raise _broken(uri, "its bytes fail their checksum")
        self.downloaded_bytes += size_bytes
        self._copies.add(self._query_id, stored.checksum, stored.size_bytes, path)


def raise_first_or_all_broken(results: Iterable[object]) -> None:
    """Raises the first error of several transfers; broken files are merged into one error."""
    broken: list[coordinator_pb2.BrokenFile] = []
    for result in results:
        if isinstance(result, BrokenFilesError):
            broken += result.files
        elif isinstance(result, BaseException):
            raise result
    if broken:
        raise BrokenFilesError(broken)


def describe(files: Iterable[coordinator_pb2.BrokenFile]) -> str:
    """Returns a text that names each file and its problem."""
    return "; ".join(
        file.problem if file.path in file.problem else f"{file.path}: {file.problem}"
        for file in files
    )


def _broken(path: str, problem: str) -> BrokenFilesError:
    return BrokenFilesError([coordinator_pb2.BrokenFile(path=path, problem=problem)])
