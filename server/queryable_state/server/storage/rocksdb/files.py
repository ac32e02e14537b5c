"""Files of a closed RocksDB database: listing, placing and reading them."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from rocksdict import AccessType, Rdict

from queryable_state.server.storage.key_order import key_after, prefix_end
from queryable_state.server.storage.rocksdb.errors import reading_files, writing_files
from queryable_state.server.storage.rocksdb.options import database_options
from queryable_state.server.storage.rocksdb.records import IteratedRecords
from queryable_state.server.storage.rocksdb.settings import RocksDBSettings
from queryable_state.server.storage.rocksdb.time_index import is_index_family
from queryable_state.server.storage.snapshot import LocalFile

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

_TABLE_SUFFIX = ".sst"
_READ_RECORDS = 1024
_NO_LINKS = (errno.EXDEV, errno.EPERM, errno.EOPNOTSUPP, errno.EMLINK)

DEFAULT_FAMILY = "default"
"""The column family that every database has; it holds no state."""


def local_files(directory: Path) -> list[LocalFile]:
    """The files of a native snapshot, by name."""
    return [
        LocalFile(path.name, path, path.suffix == _TABLE_SUFFIX)
        for path in sorted(directory.iterdir())
    ]


def place_files(files: Mapping[str, Path], directory: Path) -> None:
    """Puts files under their names into a new directory.

    Tables never change and are hard-linked if the file system allows it. All other files
    are copied, because an open database writes to them.
    """
    with writing_files(directory):
        directory.mkdir(parents=True)
        for name, path in files.items():
            if not (name.endswith(_TABLE_SUFFIX) and _linked(path, directory / name)):
                shutil.copyfile(path, directory / name)


def _linked(path: Path, link: Path) -> bool:
    try:
        os.link(path, link)
    except OSError as error:
        if error.errno in _NO_LINKS:
            return False
        raise
    return True


def read_rocksdb_files(
    files: Mapping[str, Path],
    scratch: Path,
    first_key_group: int,
    last_key_group: int,
    *,
    state_ids: Collection[int] | None = None,
) -> Iterator[tuple[int, list[tuple[bytes, bytes]]]]:
    """Records of these key groups (both inclusive) and states (None: all) in a native snapshot.

    Yields (state id, some records), a state after the other, each in key order. The
    files may be anywhere and stay as they are: the generator reads links to them in a
    folder under `scratch` and removes it at its end. Raises `CorruptDataError` for files
    that are not a complete database.
    """
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="read-", dir=scratch) as folder:
        directory = Path(folder) / "db"
        place_files(files, directory)
        yield from _read(directory, first_key_group, last_key_group, state_ids)


def _read(
    directory: Path,
    first_key_group: int,
    last_key_group: int,
    state_ids: Collection[int] | None,
) -> Iterator[tuple[int, list[tuple[bytes, bytes]]]]:
    start, end = first_key_group.to_bytes(2), prefix_end(last_key_group.to_bytes(2))
    options = database_options(RocksDBSettings(), new=False)
    with reading_files(directory):
        names = [name for name in Rdict.list_cf(str(directory), options) if name != DEFAULT_FAMILY]
        stored = sorted(int(name) for name in names if not is_index_family(name))
        database = Rdict(
            str(directory),
            options,
            column_families=dict.fromkeys(names, options),
            access_type=AccessType.read_only(),
        )
    try:
        for state_id in stored:
            if state_ids is not None and state_id not in state_ids:
                continue
            with reading_files(directory):
                family = database.get_column_family(str(state_id))
            try:
                with reading_files(directory):
                    source = IteratedRecords(family.iter())
                next_start: bytes | None = start
                while next_start is not None:
                    with reading_files(directory):
                        records = source.chunk(next_start, end, _READ_RECORDS)
                    next_start = (
                        key_after(records[-1][0]) if len(records) == _READ_RECORDS else None
                    )
                    if records:
                        yield state_id, records
            finally:
                # A live iterator would keep the database open.
                source = None  # type: ignore[assignment]
                family.close()
    finally:
        database.close()
