"""Manifest files of a state root: one file a committed batch and epoch."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from queryable_state.internal.v1.checkpoint_pb2 import Manifest
from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.file_systems.storage import MissingFileError, join
from queryable_state.server.checkpoint.framing import check_format, read_message, write_message
from queryable_state.wire.errors import CorruptDataError

if TYPE_CHECKING:
    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage

_log = logging.getLogger(__name__)

_READERS = 8


class ManifestFiles:
    """Reads and writes manifests; the one of the highest epoch is valid for a batch.

    Blocking, usable from every thread.
    """

    def __init__(self, root: str, storage: CheckpointStorage) -> None:
        self._root = root
        self._storage = storage

    def newest_epoch(self, batch: int) -> int | None:
        """The highest epoch with a manifest of this batch; None if there is none."""
        names = self._storage.list(join(self._root, layout.batch_folder(batch)))
        epochs = map(layout.manifest_epoch, names)
        return max((epoch for epoch in epochs if epoch is not None), default=None)

    def of(self, batch: int) -> Manifest | None:
        """The manifest of a batch, None if there is none; raises CorruptDataError if damaged."""
        newest = self.newest_epoch(batch)
        return None if newest is None else self._read(batch, newest)

    def all(self, after: int) -> list[Manifest]:
        """The manifests of all batches after `after`, by batch.

        Logs and skips damaged ones; skips those that are removed during the call.
        """
        newest: dict[int, int] = {}
        for entry in self._storage.walk(join(self._root, layout.CHANGELOG)):
            batch, _, name = entry.path.partition("/")
            epoch = layout.manifest_epoch(name)
            if epoch is not None and layout.is_number(batch) and int(batch) > after:
                newest[int(batch)] = max(epoch, newest.get(int(batch), 0))
        with ThreadPoolExecutor(_READERS, thread_name_prefix="manifests") as readers:
            batches = sorted(newest)
            found = readers.map(self._read_if_intact, batches, [newest[batch] for batch in batches])
            return [manifest for manifest in found if manifest is not None]

    def write(self, manifest: Manifest) -> None:
        """Writes the manifest of a batch and epoch. Idempotent."""
        path = layout.manifest_file(manifest.batch_id, manifest.run_epoch)
        self._storage.write(join(self._root, path), write_message(manifest))

    def _read_if_intact(self, batch: int, epoch: int) -> Manifest | None:
        try:
            return self._read(batch, epoch)
        except MissingFileError:
            return None
        except CorruptDataError as problem:
            _log.error("the manifest of batch %d is damaged: %s", batch, problem)
            return None

    def _read(self, batch: int, epoch: int) -> Manifest:
        path = join(self._root, layout.manifest_file(batch, epoch))
        manifest = read_message(Manifest, self._storage.read(path), path)
        check_format(manifest.format_version, path)
        if (manifest.batch_id, manifest.run_epoch) != (batch, epoch):
            raise CorruptDataError(f"{path} is the manifest of batch {manifest.batch_id}")
        return manifest
