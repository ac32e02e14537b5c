"""Every stored format, byte by byte: a change here is a decision, not an accident.

The expected bytes stand in `fixtures/formats.json`; the objects they are made of stand here.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from queryable_state.internal.v1.changes_pb2 import Token
from queryable_state.internal.v1.checkpoint_pb2 import (
    ChangelogFile,
    CheckpointMetadata,
    Manifest,
    OperatorSnapshot,
    OperatorState,
    RangeSnapshot,
    RootRegistrations,
    SnapshotFormat,
    StateSize,
    StoredFile,
)
from queryable_state.server.checkpoint.canonical import CanonicalWriter, read_canonical
from queryable_state.server.checkpoint.file_systems.storage import checksum
from queryable_state.server.checkpoint.framing import read_message, write_message
from queryable_state.v1.registration_pb2 import SchemaVersion, StateKind, StateRegistration
from queryable_state.wire.errors import CorruptDataError
from queryable_state.wire.schema.types import type_info

if TYPE_CHECKING:
    from google.protobuf.message import Message

FIXTURES = json.loads((Path(__file__).parent / "fixtures" / "formats.json").read_text())

STATE = StateRegistration(
    state_id=7,
    job_id=bytes(range(16)),
    job_name="job",
    operator_uid="uid",
    state_name="last",
    queryable_name="lastTemperature",
    kind=StateKind.VALUE,
    key_type=type_info("string").to_proto(),
    value_types=[SchemaVersion(version=1, type=type_info("double").to_proto())],
    max_parallelism=128,
)
RANGE = RangeSnapshot(
    operator_uid="uid",
    index=1,
    parallelism=2,
    max_parallelism=128,
    first_key_group=64,
    last_key_group=127,
    format=SnapshotFormat.ROCKSDB,
    files=[
        StoredFile(name="000012.sst", path="shared/0a-3", size_bytes=3, checksum=checksum(b"abc")),
        StoredFile(name="CURRENT", inlined=b"x", size_bytes=1, checksum=checksum(b"x")),
    ],
    operator_states=[OperatorState(state_id=9, elements=[b"a", b""])],
    sizes=[StateSize(state_id=7, records=5, bytes=90)],
    new_bytes=3,
)
MESSAGES: dict[str, Message] = {
    "CheckpointMetadata": CheckpointMetadata(
        format_version=1,
        checkpoint_id=7,
        job_id=bytes(range(16)),
        job_name="job",
        version=41,
        commit_time_ms=1_700_000_000_000,
        watermark_ms=1_699_999_999_000,
        triggered_at_ms=1_700_000_001_000,
        duration_ms=120,
        offsets_digest=b"digest",
        run_epoch=3,
        backend="rocksdb",
        operators=[
            OperatorSnapshot(
                uid="uid",
                name="name",
                depth=0,
                parallelism=2,
                max_parallelism=128,
                states=[STATE],
                ranges=[RANGE],
            )
        ],
    ),
    "Manifest": Manifest(
        format_version=1,
        batch_id=41,
        run_epoch=3,
        offsets_digest=b"digest",
        commit_time_ms=1_700_000_000_000,
        watermark_ms=1_699_999_999_000,
        changelogs=[
            ChangelogFile(
                batch_id=41,
                operator_uid="uid",
                path="changelog/41/uid/64-127/3-77",
                size_bytes=3,
                checksum=checksum(b"abc"),
                token=Token(run_epoch=3, task_attempt=77),
                index=1,
                parallelism=2,
                first_key_group=64,
                last_key_group=127,
            )
        ],
    ),
    "RootRegistrations": RootRegistrations(
        format_version=1,
        job_id=bytes(range(16)),
        job_name="job",
        states=[STATE],
        first_batch=1,
        restored_from="s3://b/savepoint-1",
    ),
}

RECORDS = {
    7: [(b"\x00\x01a\x00", b"one"), (b"\x00\x02b\x00", b"")],
    9: [(b"\x00\x01a\x00", b"two")],
}


@pytest.mark.parametrize("name", MESSAGES)
def test_a_file_of_one_message_is_pinned(name: str) -> None:
    message = MESSAGES[name]
    assert write_message(message).hex() == FIXTURES[name]
    assert read_message(type(message), bytes.fromhex(FIXTURES[name]), "it") == message


def test_a_canonical_snapshot_is_pinned(tmp_path: Path) -> None:
    with CanonicalWriter(tmp_path / "state") as writer:
        for state_id, records in RECORDS.items():
            writer.add(state_id, records)
    assert (tmp_path / "state").read_bytes().hex() == FIXTURES["canonical"]
    (tmp_path / "old").write_bytes(bytes.fromhex(FIXTURES["canonical"]))
    assert dict(read_canonical(tmp_path / "old")) == RECORDS


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda data: data[:5], "is truncated"),
        (lambda data: b"X" + data[1:], "no file of a state root"),
        (lambda data: data[:4] + b"\x02" + data[5:], "format version 2"),
        (lambda data: data[:-1], "bytes of content"),
        (lambda data: data + b"x", "bytes of content"),
        (lambda data: data[:-1] + b"x", "fails its checksum"),
    ],
)
def test_a_file_that_is_not_whole_is_refused_by_name(change: object, text: str) -> None:
    assert callable(change)
    data = change(bytes.fromhex(FIXTURES["Manifest"]))
    with pytest.raises(CorruptDataError, match=f"it.*{text}|{text}"):
        read_message(Manifest, data, "it")
