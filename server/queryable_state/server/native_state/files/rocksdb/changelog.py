"""Changelog files of the RocksDB provider, versions 1 to 4.

Version 1 has sized records only. The others begin with their version as text: 2 has typed
records, 3 and 4 are 1 and 2 with the lineage of checkpoint format v2 in front.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.server.native_state.files.java_data import JavaData
from queryable_state.server.native_state.files.outcomes import UnsupportedFormatError, damaged
from queryable_state.server.native_state.files.record_stream import sized_records, typed_records

if TYPE_CHECKING:
    from queryable_state.server.native_state.files.changes import Changes

_SIZED = 1
_TYPED = 2
_SIZED_WITH_LINEAGE = 3
_TYPED_WITH_LINEAGE = 4
# A version as `writeUTF` writes it, with a length of 2 to 4 bytes.
_VERSION = re.compile(rb"\x00[\x02-\x04]v([0-9]{1,3})")


@dataclass(frozen=True, slots=True)
class LineageItem:
    """A version of a store and its unique id in checkpoint format v2."""

    version: int
    unique_id: str


class Changelog:
    """One decompressed changelog file.

    Raises UnsupportedFormatError for another version, and CorruptDataError for damage in front
    of the records.
    """

    def __init__(self, data: bytes, file: str) -> None:
        self._data = data
        self._file = file
        found = _VERSION.match(data)
        # The length of the first key of version 1 may look like a version, as in Spark.
        whole = found is not None and found.end() == data[1] + 2
        self.version = int(found[1]) if found and whole else _SIZED
        if self.version > _TYPED_WITH_LINEAGE or (whole and self.version <= _SIZED):
            raise UnsupportedFormatError(
                f"{file} is a changelog of version {self.version}, versions up to "
                f"{_TYPED_WITH_LINEAGE} are known: update this library"
            )
        head = JavaData(data, file, found.end() if found and whole else 0)
        self.lineage: tuple[LineageItem, ...] = ()
        """Version and unique id of each version from the last snapshot's up to the one before
        this. Empty before version 3."""
        if self.version >= _SIZED_WITH_LINEAGE:
            self.lineage = _lineage(head.text(), file)
        self._begin = head.position

    def changes(self) -> Changes:
        """Yields the changes in their order; raises CorruptDataError at damage."""
        if self.version in (_TYPED, _TYPED_WITH_LINEAGE):
            return typed_records(self._data, self._file, self._begin)
        return sized_records(self._data, self._file, self._begin)


def _lineage(text: str, file: str) -> tuple[LineageItem, ...]:
    try:
        items = [
            LineageItem(int(i["version"]), str(i["checkpointUniqueId"])) for i in json.loads(text)
        ]
    except (ValueError, KeyError, TypeError) as problem:
        raise damaged(file, f"its lineage is no JSON of versions and ids ({problem})") from problem
    return tuple(sorted(items, key=lambda item: item.version))
