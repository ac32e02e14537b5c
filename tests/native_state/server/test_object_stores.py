"""A checkpoint on S3 is served and followed as one on a disk."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from tests.checkpoint.conftest import BUCKET, s3_endpoint, s3_options
from tests.native_state.server.conftest import client_of, everything, until_batch

from queryable_state.server.checkpoint.file_systems.storage import join
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.native_state.server.replay import ReplayedQuery

    from queryable_state.server.checkpoint.file_systems.storage import CheckpointStorage
    from queryable_state.server.native_state.server.native_server import NativeServer

# Fixtures of others, which tests here ask for.
__all__ = ["s3_endpoint", "s3_options"]

# Longer than it takes on a machine that does nothing else.
VISIBLE_S = 5.0


def mirror(query: ReplayedQuery, storage: CheckpointStorage, uri: str) -> None:
    """Uploads what the query has written; commits last."""
    for path in sorted(query.root.rglob("*"), key=lambda each: each.parent.name == "commits"):
        target = join(uri, str(path.relative_to(query.root)))
        if path.is_file() and not storage.exists(target):
            storage.upload(path, target)


async def test_a_checkpoint_on_s3_is_followed(
    query: ReplayedQuery, serving: Callable[..., NativeServer], s3_options: dict[str, Any]
) -> None:
    uri = f"s3a://{BUCKET}/{query.root.parent.name}/orders"
    storage = storage_of(uri, s3_options)
    query.commit(3)
    mirror(query, storage, uri)
    async with (
        serving(uri, storage_options=s3_options, follow=True) as server,
        client_of(server) as client,
    ):
        for batch in (4, 5, 6):
            query.commit(batch)
            mirror(query, storage, uri)
            begun_s = time.monotonic()
            await until_batch(server, batch)
            assert time.monotonic() - begun_s < VISIBLE_S
        async with serving(query.root) as other, client_of(other) as expected:
            assert await everything(client) == await everything(expected)
