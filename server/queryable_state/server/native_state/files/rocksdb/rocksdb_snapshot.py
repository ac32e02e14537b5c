"""Snapshots of the RocksDB provider: a zip of RocksDB's small files, and SST files beside it."""

from __future__ import annotations

import io
import lzma
import re
import shutil
import struct
import zipfile
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint.file_systems.storage import MissingFileError, is_local
from queryable_state.server.checkpoint.file_systems.storage_errors import translating
from queryable_state.server.native_state.files.outcomes import (
    UnsupportedFormatError,
    checksum_mismatch,
    damaged,
    file_removed,
)
from queryable_state.server.native_state.files.rocksdb.downloads import Downloads
from queryable_state.server.native_state.files.rocksdb.snapshot_metadata import parse_metadata
from queryable_state.server.native_state.files.store_files import RocksDbFiles

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage
    from queryable_state.server.native_state.files.checked_reads import CheckedReads
    from queryable_state.server.native_state.files.rocksdb.snapshot_metadata import (
        DataFile,
        SnapshotMetadata,
    )

_METADATA = "metadata"
_OPTIONS = "OPTIONS-"
_DOWNLOADS = 8
# The options that RocksDB writes do not hold the delimiter, so that a reader would use a comma.
_MERGE_OPERATOR = re.compile(rb"^(\s*merge_operator=)(.*)$", re.MULTILINE)
# What zipfile raises for damaged bytes, besides its own error.
_BROKEN_ZIP = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    OSError,
    RuntimeError,
    ValueError,
)
# The end of a zip without a comment: signature, two disks, members here, members, and the rest.
_ZIP_END = struct.Struct("<4sHHHHIIH")
_NO_OPERATOR = b"nullptr"
_APPEND = re.compile(rb"\{?(?:id=)?(StringAppendOperator)\b.*")


class RocksDbSnapshot(RocksDbFiles):
    """One `V.zip` or `V_ID.zip`, read at the first use."""

    def __init__(
        self,
        storage: CheckpointStorage,
        files: CheckedReads,
        name: str,
        version: int,
        merge_delimiter: bytes,
    ) -> None:
        self.version = version
        self.path = files.path(name)
        self._storage = storage
        self._files = files
        self._name = name
        self._merge_delimiter = merge_delimiter
        self._members: dict[str, bytes] | None = None

    @property
    def column_families(self) -> Mapping[str, int]:
        return self.metadata.column_families

    @property
    def metadata(self) -> SnapshotMetadata:
        """The description in the zip. Raises FileRemovedError or CorruptDataError."""
        members = self._zip()
        if _METADATA not in members:
            raise damaged(self.path, "it has no metadata")
        return parse_metadata(members[_METADATA], self.path)

    def place(self, directory: Path, downloads: Path | None = None) -> None:
        metadata = self.metadata
        try:
            with translating(str(directory), "fill"):
                directory.mkdir(parents=True)
                for name, data in self._zip().items():
                    if name != _METADATA:
                        placed = self._options(data) if name.startswith(_OPTIONS) else data
                        (directory / name).write_bytes(placed)
                if any("/" in file.local_name for file in metadata.files):
                    (directory / "archive").mkdir()
            self._place_data(metadata.files, directory, downloads)
        except BaseException:
            shutil.rmtree(directory, ignore_errors=True)
            raise

    def _place_data(
        self, files: tuple[DataFile, ...], directory: Path, downloads: Path | None
    ) -> None:
        if is_local(self.path):
            for file in files:
                self._fetch(file, directory / file.local_name)
            return
        kept = Downloads(downloads) if downloads else None

        def place(file: DataFile) -> None:
            target = directory / file.local_name
            if kept is None or not kept.link(file, target):
                self._fetch(file, target)
                if kept is not None:
                    kept.keep(file, target)

        with ThreadPoolExecutor(_DOWNLOADS, "spark-sst") as pool:
            for _ in pool.map(place, files):
                pass
        if kept is not None:
            kept.remove_others(files)

    def _fetch(self, file: DataFile, target: Path) -> None:
        path = self._files.path(file.path)
        try:
            self._storage.download(path, target)
        except MissingFileError as problem:
            raise self._missing(path) from problem
        size = target.stat().st_size
        if size != file.size_bytes:
            raise damaged(path, f"it has {size} bytes instead of {file.size_bytes}")

    def _missing(self, path: str) -> Exception:
        """The job removes SST files before the zips that name them; it keeps a newer snapshot."""
        names = self._storage.list(self._files.folder)
        versions = [int(name.split("_")[0].split(".")[0]) for name in names if _is_zip(name)]
        if self._name in names and max(versions, default=0) <= self.version:
            return damaged(self.path, f"its file {path} is missing")
        return file_removed(path)

    def _zip(self) -> dict[str, bytes]:
        if self._members is None:
            try:
                data = self._files.read(self._name)
            except MissingFileError as problem:
                raise file_removed(self.path) from problem
            self._members = self._unpacked(data)
        return self._members

    def _unpacked(self, data: bytes) -> dict[str, bytes]:
        try:
            with zipfile.ZipFile(io.BytesIO(data)) as archive:
                members = {name: archive.read(name) for name in archive.namelist()}
            *_, expected, _, _, _ = _ZIP_END.unpack(data[-_ZIP_END.size :])
        except _BROKEN_ZIP as problem:
            raise checksum_mismatch(self.path, f"its zip is broken ({problem})") from problem
        if len(members) != expected:
            # zipfile stops silently at a directory entry of a wrong length.
            raise damaged(self.path, f"its zip shows {len(members)} of its {expected} members")
        for name in members:
            if "/" in name or "\\" in name or name in ("", ".", ".."):
                raise damaged(self.path, f"it has a member {name!r} outside of its folder")
        return members

    def _options(self, data: bytes) -> bytes:
        """The options with the delimiter of merged values."""

        def operator(match: re.Match[bytes]) -> bytes:
            name = match[2].strip()
            if name == _NO_OPERATOR:
                return match[0]
            if not _APPEND.fullmatch(name):
                raise UnsupportedFormatError(
                    f"{self.path} has the merge operator {name.decode(errors='replace')}, only "
                    "StringAppendOperator is known: update this library"
                )
            return match[1] + b"{id=StringAppendOperator;delimiter=" + self._merge_delimiter + b";}"

        return _MERGE_OPERATOR.sub(operator, data)


def _is_zip(name: str) -> bool:
    return re.fullmatch(r"[0-9]+(_[^.]+)?\.zip", name) is not None
