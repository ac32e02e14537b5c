"""Reader of a savepoint or a retained checkpoint from which a job starts."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from queryable_state.server.checkpoint.file_systems.storage import MissingFileError, join
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint.layout import METADATA, SPARK
from queryable_state.server.checkpoint.state_root import read_savepoint, root_of_files
from queryable_state.streaming.spark.savepoints.checkpoint_progress import progress_at
from queryable_state.wire.errors import RestoreMismatchError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark import SparkContext

    from queryable_state.internal.v1.checkpoint_pb2 import CheckpointMetadata
    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage

# Without these files the query would start at its first batch, with later state.
_REQUIRED = ("metadata", "offsets/{version}", "commits/{version}")


@dataclass(frozen=True)
class Savepoint:
    """Metadata of one savepoint or retained checkpoint, and Spark's progress as of it."""

    uri: str
    metadata: CheckpointMetadata
    files: Mapping[str, Callable[[], bytes]]
    """Readers of the files of Spark's progress, by name."""

    @staticmethod
    def read(
        context: SparkContext, uri: str, storage_options: Mapping[str, Any] | None = None
    ) -> Savepoint:
        """Reads a savepoint or checkpoint and checks that Spark's progress is complete.

        Raises RestoreMismatchError for a folder without a savepoint, and for a checkpoint whose
        progress is gone; CheckpointError or CorruptDataError if reading fails.
        """
        uri = uri.rstrip("/")
        storage = storage_of(uri, storage_options)
        try:
            metadata = read_savepoint(uri, storage)
        except MissingFileError as missing:
            raise RestoreMismatchError(
                f"{uri} is not a complete savepoint: it has no {METADATA}. Pass the folder that "
                "trigger_savepoint returned (…/savepoint-<job>-<random>), or a checkpoint "
                "(…/chk-<n>) in the state root of a job"
            ) from missing
        if not metadata.savepoint:
            root = root_of_files(uri, metadata)
            return Savepoint(uri, metadata, progress_at(context, uri, root, metadata))
        found = Savepoint(uri, metadata, _files(uri, storage))
        for name in _REQUIRED:
            found.progress(name.format(version=metadata.version))
        return found

    @property
    def label(self) -> str:
        """Text for logs and errors."""
        return f"{'savepoint' if self.metadata.savepoint else 'checkpoint'} {self.uri}"

    @property
    def version(self) -> int:
        """The last batch in the savepoint."""
        return self.metadata.version

    def progress(self, name: str) -> bytes:
        """The content of a file of Spark's progress."""
        try:
            return self.files[name]()
        except (KeyError, MissingFileError) as missing:
            raise RestoreMismatchError(
                f"the {self.label} is broken: it has no {SPARK}/{name}, from which Spark "
                "would continue; use another savepoint"
            ) from missing

    def optional_progress(self, name: str) -> bytes | None:
        """The content of a file of Spark's progress; None if there is none."""
        return self.progress(name) if name in self.progress_files() else None

    def progress_files(self) -> list[str]:
        """Names of all files of Spark's progress."""
        return list(self.files)


def _files(uri: str, storage: CheckpointStorage) -> dict[str, Callable[[], bytes]]:
    folder = join(uri, SPARK)
    names = [entry.path for entry in storage.walk(folder)]
    return {name: partial(storage.read, join(folder, name)) for name in names}
