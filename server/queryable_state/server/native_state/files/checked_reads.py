"""Reads of whole files of a checkpoint, compared with the checksums beside them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint.file_systems.storage import (
    MissingFileError,
    is_local,
    join,
)
from queryable_state.server.native_state.files.checksums import (
    hadoop_checksum_name,
    hadoop_mismatch,
    spark_checksum_name,
    spark_mismatch,
)
from queryable_state.server.native_state.files.outcomes import checksum_mismatch

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage

_ATTEMPTS = 4
_PAUSE_S = 0.02


class CheckedReads:
    """Reads of the files of one folder.

    Spark replaces a file and then its checksum file. A mismatch is therefore read again a few
    times before it counts as damage.
    """

    def __init__(
        self,
        storage: CheckpointStorage,
        folder: str,
        *,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._storage = storage
        self.folder = folder
        self._pause = pause
        # Reading a missing file costs nothing on a local disk, and a request elsewhere: there
        # only a listing turns the checksums on.
        self._hadoop = self._spark = is_local(folder)
        self._local = is_local(folder)

    def learn(self, names: Collection[str]) -> None:
        """Takes from a listing of the folder whether its files have checksums."""
        if self._local:
            return
        hidden = {name for name in names if name.endswith(".crc")}
        self._hadoop = any(name.startswith(".") for name in hidden)
        self._spark = any(not name.startswith(".") for name in hidden)

    def path(self, name: str) -> str:
        """The URI of a file of the folder."""
        return join(self.folder, name)

    def read(self, name: str) -> bytes:
        """All bytes of a file.

        Raises MissingFileError, and CorruptDataError if a checksum differs.
        """
        path = self.path(name)
        problem = ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                self._pause(_PAUSE_S)
            data = self._storage.read(path)
            problem = self._mismatch(name, data)
            if not problem:
                return data
        raise checksum_mismatch(path, problem)

    def _mismatch(self, name: str, data: bytes) -> str:
        if self._hadoop:
            sums = self._optional(hadoop_checksum_name(name))
            if sums is not None and (problem := hadoop_mismatch(data, sums)):
                return problem
        if self._spark:
            sums = self._optional(spark_checksum_name(name))
            if sums is not None:
                return spark_mismatch(data, sums)
        return ""

    def _optional(self, name: str) -> bytes | None:
        try:
            return self._storage.read(self.path(name))
        except MissingFileError:
            return None
