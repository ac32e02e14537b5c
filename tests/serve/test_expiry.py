"""Values expire as of the checkpoint, not as of the day somebody reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queryable_state.client import QueryableStateClient
from queryable_state.internal.v1.checkpoint_pb2 import (
    CheckpointMetadata,
    OperatorSnapshot,
    RangeSnapshot,
    SnapshotFormat,
    StoredFile,
)
from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.canonical import CanonicalWriter
from queryable_state.server.checkpoint.file_systems.storage import file_checksum
from queryable_state.server.checkpoint.framing import write_message
from queryable_state.server.testing.cluster import declare
from queryable_state.wire.errors import UnknownKeyOrNamespaceError
from queryable_state.wire.keys.store_keys import record_key
from queryable_state.wire.state_codecs import StateCodecs
from queryable_state.wire.values.value_codec import header_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from queryable_state.server.checkpoint_server.server import CheckpointServer

COMMIT_TIME_MS = 1_700_000_000_000
TTL_MS = 60_000
EXPIRED_MS = COMMIT_TIME_MS - TTL_MS


async def test_what_had_not_expired_then_is_answered(
    tmp_path: Path, serving: Callable[..., CheckpointServer]
) -> None:
    """A savepoint written by hand, years ago."""
    state = declare("last", "string", "bigint")
    state.state_id, state.job_id, state.job_name = 7, bytes(16), "old"
    state.ttl.ttl_ms = TTL_MS
    codecs = StateCodecs(state)
    records = {}
    for key, timestamp_ms in (("alive", EXPIRED_MS + 1), ("expired", EXPIRED_MS)):
        header, value = header_of(1, timestamp_ms), codecs.value.encode(len(key))
        payload = value[len(header_of(1)) :]
        records[record_key(codecs.key_groups.wire_key(key))] = header + payload
    folder = tmp_path / "savepoint" / layout.range_folder("", "uid", 0, 127)
    folder.mkdir(parents=True)
    with CanonicalWriter(folder / "state") as writer:
        writer.add(7, sorted(records.items()))
    file = StoredFile(
        name="state",
        path="uid/0-127/state",
        size_bytes=(folder / "state").stat().st_size,
        checksum=file_checksum(folder / "state"),
    )
    part = RangeSnapshot(
        operator_uid="uid",
        index=0,
        parallelism=1,
        max_parallelism=128,
        last_key_group=127,
        format=SnapshotFormat.CANONICAL,
        files=[file],
    )
    metadata = CheckpointMetadata(
        format_version=1,
        job_id=bytes(16),
        job_name="old",
        version=5,
        commit_time_ms=COMMIT_TIME_MS,
        savepoint=True,
        backend="heap",
        operators=[
            OperatorSnapshot(
                uid="uid", parallelism=1, max_parallelism=128, states=[state], ranges=[part]
            )
        ],
    )
    (tmp_path / "savepoint" / "_metadata").write_bytes(write_message(metadata))

    async with serving(tmp_path / "savepoint") as server:
        host, _, port = server.address.rpartition(":")
        async with QueryableStateClient(host, int(port), timeout_s=20.0) as client:
            alive = await client.get_kv_state("old", "last", "alive")
            assert (alive.value(), alive.remaining_ms) == (5, 1)
            with pytest.raises(UnknownKeyOrNamespaceError):
                await client.get_kv_state("old", "last", "expired")
