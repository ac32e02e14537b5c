"""Reader of a savepoint from which a job starts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from queryable_state.server.checkpoint.file_systems.storage import MissingFileError, join
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint.layout import METADATA, SPARK
from queryable_state.server.checkpoint.state_root import read_savepoint
from queryable_state.wire.errors import RestoreMismatchError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from queryable_state.internal.v1.checkpoint_pb2 import CheckpointMetadata
    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage

# Without these files the query would start at its first batch, with later state.
_REQUIRED = ("metadata", "offsets/{version}", "commits/{version}")


@dataclass(frozen=True)
class Savepoint:
    """Metadata and files of one savepoint."""

    uri: str
    metadata: CheckpointMetadata
    storage: CheckpointStorage

    @staticmethod
    def read(uri: str, storage_options: Mapping[str, Any] | None = None) -> Savepoint:
        """Reads a savepoint and checks that Spark's progress is complete.

        Raises RestoreMismatchError for a checkpoint, which belongs to its job only, and for a
        folder without a savepoint; CheckpointError or CorruptDataError if reading fails.
        """
        uri = uri.rstrip("/")
        storage = storage_of(uri, storage_options)
        try:
            metadata = read_savepoint(uri, storage)
        except MissingFileError as missing:
            raise RestoreMismatchError(
                f"{uri} is not a complete savepoint: it has no {METADATA}. Pass the folder that "
                "trigger_savepoint returned (…/savepoint-<job>-<random>)"
            ) from missing
        if not metadata.savepoint:
            raise RestoreMismatchError(
                f"{uri} is checkpoint {metadata.checkpoint_id} of job {metadata.job_name!r}. That "
                "job restores it when it is started with the same name or checkpoint location; to "
                "start another job, trigger a savepoint"
            )
        found = Savepoint(uri, metadata, storage)
        for name in _REQUIRED:
            found.progress(name.format(version=metadata.version))
        return found

    @property
    def version(self) -> int:
        """The last batch in the savepoint."""
        return self.metadata.version

    def progress(self, name: str) -> bytes:
        """The content of a file of Spark's progress."""
        path = join(self.uri, SPARK, name)
        try:
            return self.storage.read(path)
        except MissingFileError as missing:
            raise RestoreMismatchError(
                f"the savepoint {self.uri} is broken: it has no {SPARK}/{name}, from which Spark "
                "would continue; use another savepoint"
            ) from missing

    def optional_progress(self, name: str) -> bytes | None:
        """The content of a file of Spark's progress; None if there is none."""
        return self.progress(name) if name in self.progress_files() else None

    def progress_files(self) -> list[str]:
        """Names of all files of Spark's progress."""
        return [entry.path for entry in self.storage.walk(join(self.uri, SPARK))]
