"""The `metadata` file in a snapshot's zip: which SST files and column families it has."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from queryable_state.server.native_state.files.outcomes import UnsupportedFormatError, damaged

if TYPE_CHECKING:
    from collections.abc import Mapping

_VERSION = "v1"


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a snapshot that several snapshots share."""

    local_name: str
    """Its name in the RocksDB."""

    path: str
    """Its path below the folder of the store."""

    size_bytes: int


@dataclass(frozen=True, slots=True)
class SnapshotMetadata:
    """The metadata of a snapshot: files outside of its zip, number of records, column families."""

    files: tuple[DataFile, ...]

    keys: int
    """Records, without those of internal column families; -1: not counted."""

    column_families: Mapping[str, int]
    """Ids of column families by name. Empty: keys have no column family prefix."""

    internal_column_families: frozenset[str]
    """Names of those that only Spark uses."""


def parse_metadata(data: bytes, file: str) -> SnapshotMetadata:
    """Parses the metadata; raises CorruptDataError or UnsupportedFormatError."""
    version, _, body = data.partition(b"\n")
    if version.decode(errors="replace") != _VERSION:
        raise UnsupportedFormatError(
            f"the metadata of {file} has version {version[:20]!r}, {_VERSION} is known: update "
            "this library"
        )
    try:
        content = json.loads(body)
        files = [
            _data_file(each, "dfsSstFileName", "SSTs") for each in content.get("sstFiles") or ()
        ]
        logs = [
            _data_file(each, "dfsLogFileName", "logs") for each in content.get("logFiles") or ()
        ]
        families = {
            str(name): int(number)
            for name, number in (content.get("columnFamilyMapping") or {}).items()
        }
        internal = (content.get("columnFamilyTypeMap") or {}).items()
        return SnapshotMetadata(
            files=(*files, *logs),
            keys=int(content.get("numKeys", -1)),
            column_families=families,
            internal_column_families=frozenset(str(name) for name, is_one in internal if is_one),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as problem:
        raise damaged(
            file, f"its metadata is no description of a snapshot ({problem})"
        ) from problem


def _data_file(entry: Mapping[str, Any], name_field: str, folder: str) -> DataFile:
    local, stored = str(entry["localFileName"]), str(entry[name_field])
    for name in (local, stored):
        if "/" in name or name in ("", ".", ".."):
            raise ValueError(f"{name!r} is no file name")
    # Archived logs are in the folder of that name of the RocksDB.
    below = local if folder == "SSTs" else f"archive/{local}"
    return DataFile(below, f"{folder}/{stored}", int(entry["sizeBytes"]))
