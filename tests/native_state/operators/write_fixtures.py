"""Writes the fixtures of this folder from real checkpoints.

    python write_fixtures.py NAME CHECKPOINT EXPECTED_FOLDER

A fixture has what a checkpoint says of a batch, the raw records of all stores, and the rows that
Spark's own state reader gave: a folder with a file OPERATOR.STATE.jsonl for each state.
"""

import json
import sys
import tempfile
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

from rocksdict import AccessType, Options, Rdict

from queryable_state.server.checkpoint.file_systems.local_storage import LocalStorage
from queryable_state.server.native_state.files.query_checkpoint import QueryCheckpoint
from queryable_state.server.native_state.files.store_files import RecordFile, StoreFiles
from queryable_state.wire.errors import QueryableStateError

FIXTURES = Path(__file__).parent / "fixtures"


def write(name: str, checkpoint: Path, expected: Path) -> None:
    """Writes the fixture of the newest committed batch."""
    query = QueryCheckpoint(LocalStorage(), str(checkpoint))
    batch = query.committed_batches()[-1]
    offsets, commit = query.offsets(batch), query.commit(batch)
    operators = []
    for operator in query.operators(batch):
        families: dict[str, int] = {}
        partitions = []
        for partition in range(operator.partitions):
            records = []
            for index, store in enumerate(operator.stores):
                files = query.store(operator.operator_id, partition, store.name, offsets.conf)
                unique_id = commit.unique_id(operator.operator_id, partition, index)
                try:
                    found = _records(files, batch + 1, unique_id, families)
                except QueryableStateError:
                    # The operator has no key: the other partitions do not exist.
                    found = {}
                records.append([[key.hex(), value.hex()] for key, value in sorted(found.items())])
            partitions.append(records)
        operators.append(
            {
                "metadata": _metadata(checkpoint, operator.operator_id),
                "schemas": {
                    store.name: [b64encode(file.read_bytes()).decode() for file in files]
                    for store, files in (
                        (store, _schema_files(checkpoint, operator.operator_id, store.name))
                        for store in operator.stores
                    )
                },
                "family_ids": families,
                "partitions": partitions,
            }
        )
    content = {
        "batch_time_ms": offsets.timestamp_ms,
        "conf": dict(offsets.conf),
        "operators": operators,
        "expected": {
            file.stem: [json.loads(line) for line in file.read_text().splitlines()]
            for file in sorted(expected.glob("*.jsonl"))
            if "@" not in file.stem
        },
    }
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    (FIXTURES / f"{name}.json").write_text(text + "\n")


def _records(
    files: StoreFiles, version: int, unique_id: str | None, families: dict[str, int]
) -> dict[bytes, bytes]:
    plan = files.plan(version, unique_id)
    records: dict[bytes, bytes] = {}
    if plan.snapshot is not None:
        families.update(plan.snapshot.column_families)
        if isinstance(plan.snapshot, RecordFile):
            records.update(plan.snapshot.records())
        else:
            records.update(_rocksdb(plan.snapshot))
    for delta in plan.deltas:
        changes = delta.folded()
        for key, value in changes.values.items():
            if value is None:
                records.pop(key, None)
            else:
                records[key] = value
        for key, value in changes.appended.items():
            old = records.get(key)
            records[key] = value if old is None else old + files.merge_delimiter + value
    return records


def _rocksdb(snapshot) -> Iterator[tuple[bytes, bytes]]:  # type: ignore[no-untyped-def]
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "rocksdb"
        snapshot.place(directory)
        database = Rdict(str(directory), Options(raw_mode=True), access_type=AccessType.read_only())
        yield from database.items()
        database.close()


def _metadata(checkpoint: Path, operator_id: int) -> str:
    folder = checkpoint / "state" / str(operator_id) / "_metadata"
    newer = sorted((folder / "v2").glob("[0-9]*"), key=lambda file: int(file.name))
    return (newer[-1] if newer else folder / "metadata").read_text()


def _schema_files(checkpoint: Path, operator_id: int, store: str) -> list[Path]:
    folder = checkpoint / "state" / str(operator_id)
    evolved = sorted((folder / "_stateSchema" / store).glob("[0-9]*"))
    if evolved:
        return evolved
    partition = folder / "0" if store == "default" else folder / "0" / store
    return [partition / "_metadata" / "schema"]


if __name__ == "__main__":
    write(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
