"""A savepoint, as a job is started from it."""

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

# Without these the query would start at its first batch, on state that is batches ahead.
_NEEDED = ("metadata", "offsets/{version}", "commits/{version}")


@dataclass(frozen=True)
class Savepoint:
    """What a savepoint's folder says, and where its files are."""

    uri: str
    metadata: CheckpointMetadata
    storage: CheckpointStorage

    @staticmethod
    def read(uri: str, storage_options: Mapping[str, Any] | None = None) -> Savepoint:
        """Reads a savepoint; refuses what is none, and one whose progress is not whole.

        RestoreMismatchError for a checkpoint, which belongs to its job alone, and for a folder
        without a savepoint; CheckpointError and CorruptDataError for what cannot be read.
        """
        uri = uri.rstrip("/")
        storage = storage_of(uri, storage_options)
        try:
            metadata = read_savepoint(uri, storage)
        except MissingFileError as missing:
            raise RestoreMismatchError(
                f"{uri} is no savepoint: it has no {METADATA}. Give the folder that "
                "trigger_savepoint returned (…/savepoint-<job>-<random>); one without the file "
                "was never completed"
            ) from missing
        if not metadata.savepoint:
            raise RestoreMismatchError(
                f"{uri} is checkpoint {metadata.checkpoint_id} of job {metadata.job_name!r}, which "
                "goes on from it by itself when it is started with the same name or checkpoint "
                "location; another job starts from a savepoint: trigger one"
            )
        found = Savepoint(uri, metadata, storage)
        for name in _NEEDED:
            found.progress(name.format(version=metadata.version))
        return found

    @property
    def version(self) -> int:
        """The batch it is as of."""
        return self.metadata.version

    def progress(self, name: str) -> bytes:
        """A file of Spark's progress."""
        path = join(self.uri, SPARK, name)
        try:
            return self.storage.read(path)
        except MissingFileError as missing:
            raise RestoreMismatchError(
                f"the savepoint {self.uri} is broken: it has no {SPARK}/{name}, by which Spark "
                "would go on behind it; use another one"
            ) from missing

    def progress_files(self) -> list[str]:
        """Names of all files of Spark's progress."""
        return [entry.path for entry in self.storage.walk(join(self.uri, SPARK))]
