"""Factory of the storage for a URI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.server.checkpoint.file_systems.local_storage import LocalStorage, local_path
from queryable_state.server.checkpoint.file_systems.object_storage import ObjectStorage
from queryable_state.server.checkpoint.file_systems.storage import DRIVER_SCHEME, is_local
from queryable_state.wire.errors import CheckpointError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from queryable_state.server.checkpoint.file_systems.storage import (
        CheckpointStorage,
        ObjectStore,
    )


def storage_of(
    uri: str,
    options: Mapping[str, Any] | None = None,
    *,
    fsync: bool = False,
    objects: ObjectStore | None = None,
) -> CheckpointStorage:
    """Returns the storage of a URI.

    `options` are those of the fsspec file system (for S3: `endpoint_url`, `key`, `secret`,
    `anon`, `client_kwargs` ...). With `fsync` a written file on a local disk survives a power
    failure. `objects` holds the files of `driver:` URIs. Raises CheckpointError for an unknown
    scheme and for one whose package is not installed.
    """
    if uri.startswith(DRIVER_SCHEME):
        if objects is None:
            raise CheckpointError(
                f"{uri} is in the memory of the job's driver and ends with it: only the job's own "
                "processes can read it"
            )
        return ObjectStorage(objects)
    if is_local(uri):
        local_path(uri)
        return LocalStorage(fsync=fsync)
    # Imported late: a job on local disks needs no fsspec.
    from queryable_state.server.checkpoint.file_systems.fsspec_storage import FsspecStorage

    return FsspecStorage.of(uri, options or {})
