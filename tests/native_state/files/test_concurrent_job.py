"""A store that a job writes and cleans up while others read it: the truth, or a typed error."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from tests.native_state.files.restored import Records, change, restored
from tests.native_state.files.spark_writers import hadoop_checksums, lz4, sized

from queryable_state.server.checkpoint.file_systems.local_storage import LocalStorage
from queryable_state.server.native_state.files.changes import Change, ChangeKind
from queryable_state.server.native_state.files.hdfs.hdfs_store_files import HdfsStoreFiles
from queryable_state.server.native_state.files.outcomes import (
    FileRemovedError,
    NotYetWrittenError,
)
from queryable_state.wire.errors import VersionGoneError

if TYPE_CHECKING:
    from pathlib import Path

VERSIONS = 300
SNAPSHOT_EVERY = 5
KEPT = 6
READERS = 3


class _Job:
    """Writes one version after the other, as Spark does: checksums after the file, and files of
    old versions are removed once a snapshot replaces them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._dice = random.Random(7)
        self.truth: list[Records] = [{}]
        """The records of each committed version."""

    def run(self) -> None:
        """Writes all versions."""
        for version in range(1, VERSIONS + 1):
            records = dict(self.truth[-1])
            changes = [self._change(records) for _ in range(20)]
            self._write(f"{version}.delta", sized(changes))
            if version % SNAPSHOT_EVERY == 0:
                puts = [(ChangeKind.PUT, key, value) for key, value in records.items()]
                self._write(f"{version}.snapshot", sized(puts))
                self._clean_up(version - KEPT)
            self.truth.append(records)

    def _change(self, records: Records) -> Change:
        key = b"%d" % self._dice.randrange(200)
        if self._dice.random() < 0.3:
            records.pop(key, None)
            return ChangeKind.DELETE, key, b""
        records[key] = b"%d" % self._dice.getrandbits(60)
        return ChangeKind.PUT, key, records[key]

    def _write(self, name: str, data: bytes) -> None:
        packed = lz4(data)
        for target, written in ((name, packed), (f".{name}.crc", hadoop_checksums(packed))):
            temporary = self._folder / f".{target}.tmp"
            temporary.write_bytes(written)
            temporary.rename(self._folder / target)

    def _clean_up(self, version: int) -> None:
        """Removes what only versions before the last snapshot at or below `version` need."""
        kept = version - version % SNAPSHOT_EVERY
        for file in self._folder.iterdir():
            number = file.name.split(".")[0]
            if number.isdigit() and int(number) < kept:
                file.unlink()
                (self._folder / f".{file.name}.crc").unlink(missing_ok=True)


def test_readers_beside_the_job_read_the_truth_or_are_told_why_not(tmp_path: Path) -> None:
    job = _Job(tmp_path)
    with ThreadPoolExecutor(READERS + 1) as threads:
        written = threads.submit(job.run)
        followed = [threads.submit(_follow, job, tmp_path) for _ in range(READERS)]
        written.result()
        assert all(reader.result() for reader in followed)


def _follow(job: _Job, folder: Path) -> int:
    """Follows the store up to its last version; returns how many versions were compared."""
    files = HdfsStoreFiles(LocalStorage(), str(folder))
    version, records, compared = 0, Records(), 0
    while version < VERSIONS:
        if len(job.truth) <= version + 1:
            continue
        try:
            delta = files.delta(version + 1)
            if delta is None:
                # The delta is removed, and its snapshot not yet.
                version, records = _newest(job, files)
            else:
                change(records, delta.folded(), b"")
                version += 1
        except (FileRemovedError, VersionGoneError):
            version, records = _newest(job, files)
        except NotYetWrittenError:
            # A delta and its successors may be missing between a listing and the next.
            continue
        assert records == job.truth[version]
        compared += 1
    return compared


def _newest(job: _Job, files: HdfsStoreFiles) -> tuple[int, Records]:
    while True:
        version = len(job.truth) - 1
        try:
            return version, restored(files, files.plan(version))
        except (FileRemovedError, VersionGoneError):
            continue
