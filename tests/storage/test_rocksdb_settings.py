"""What can be set on RocksDB, and that it reaches the database."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from queryable_state.server.storage.rocksdb.settings import (
    DEFAULT,
    FLASH_SSD_OPTIMIZED,
    PREDEFINED_OPTIONS,
    SPINNING_DISK_OPTIMIZED,
    SPINNING_DISK_OPTIMIZED_HIGH_MEM,
    RocksDBSettings,
)
from queryable_state.server.storage.rocksdb.store import RocksDBStateStore
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from pathlib import Path

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("values", "refusal"),
    [
        ({"write_buffer_bytes": 0}, "write_buffer_bytes is 0: it must be 1 byte to 64 GiB"),
        ({"write_buffer_bytes": "64mb"}, "write_buffer_bytes is '64mb': it must be a whole number"),
        ({"block_bytes": 4096.0}, "block_bytes is 4096.0: it must be a whole number"),
        ({"background_jobs": True}, "background_jobs is True: it must be a whole number"),
        ({"block_cache_bytes": 2**63}, "block_cache_bytes is 9223372036854775808"),
        ({"max_open_files": -2}, "max_open_files is -2: it must be -1 or 1 to 2,147,483,647"),
        ({"dynamic_level_bytes": 1}, "dynamic_level_bytes is 1: it must be true or false"),
        ({"use_fsync": None}, "use_fsync is None: it must be true or false"),
        (
            {"write_buffers": 2, "write_buffers_to_merge": 2},
            "write_buffers_to_merge is 2 and RocksDB setting write_buffers is 2: fewer",
        ),
        ({"write_bufer_bytes": 1}, "RocksDB has no setting 'write_bufer_bytes': use one of back"),
    ],
)
def test_a_wrong_setting_is_refused_by_name(values: dict[str, object], refusal: str) -> None:
    with pytest.raises(InvalidRequestError, match=re.escape(refusal)):
        RocksDBSettings.of(values)


def test_settings_are_made_of_a_mapping() -> None:
    assert RocksDBSettings.of({}) == RocksDBSettings()
    settings = RocksDBSettings.of({"write_buffers": 2, "max_open_files": -1})
    assert settings == RocksDBSettings(write_buffers=2)


def test_every_profile_is_a_set_of_settings_and_the_default_is_ours() -> None:
    assert sorted(PREDEFINED_OPTIONS) == [
        "DEFAULT",
        "FLASH_SSD_OPTIMIZED",
        "SPINNING_DISK_OPTIMIZED",
        "SPINNING_DISK_OPTIMIZED_HIGH_MEM",
    ]
    assert RocksDBSettings.of(DEFAULT) == RocksDBSettings()
    assert RocksDBSettings.of(FLASH_SSD_OPTIMIZED).background_jobs == 4
    assert RocksDBSettings.of(SPINNING_DISK_OPTIMIZED).dynamic_level_bytes
    assert RocksDBSettings.of(SPINNING_DISK_OPTIMIZED_HIGH_MEM) == RocksDBSettings(
        background_jobs=4,
        max_open_files=-1,
        dynamic_level_bytes=True,
        target_file_bytes=256 * MIB,
        max_level_base_bytes=1024 * MIB,
        write_buffer_bytes=64 * MIB,
        write_buffers=4,
        write_buffers_to_merge=3,
        block_cache_bytes=256 * MIB,
        block_bytes=128 * 1024,
    )


def test_what_is_set_is_what_the_database_runs_with(tmp_path: Path) -> None:
    settings = RocksDBSettings.of({**SPINNING_DISK_OPTIMIZED_HIGH_MEM, "use_fsync": True})
    with RocksDBStateStore(tmp_path / "store", settings) as store:
        store.add_state(7)
        options = max((tmp_path / "store" / "db").glob("OPTIONS-*")).read_text()
    database, _, family = options.partition('[CFOptions "7"]')
    for line in ("max_background_jobs=4", "max_open_files=-1", "use_fsync=true"):
        assert f"\n  {line}\n" in database
    for line in (
        "target_file_size_base=268435456",
        "max_bytes_for_level_base=1073741824",
        "write_buffer_size=67108864",
        "max_write_buffer_number=4",
        "min_write_buffer_number_to_merge=3",
        "level_compaction_dynamic_level_bytes=true",
        "block_size=131072",
    ):
        assert f"\n  {line}\n" in family


def test_indexes_and_filters_are_in_parts_that_the_cache_can_keep(tmp_path: Path) -> None:
    """The filter of a full table is larger than what a shard of the cache holds."""
    with RocksDBStateStore(tmp_path / "store") as store:
        store.add_state(7)
        options = max((tmp_path / "store" / "db").glob("OPTIONS-*")).read_text()
    family = options.partition('[TableOptions/BlockBasedTable "7"]')[2]
    for line in (
        "cache_index_and_filter_blocks=true",
        "index_type=kTwoLevelIndexSearch",
        "partition_filters=true",
        "metadata_block_size=4096",
    ):
        assert f"\n  {line}\n" in family


def test_settings_are_checked_without_rocksdict() -> None:
    """A driver checks them before any server is there."""
    script = (
        "import sys\n"
        "import queryable_state.server.storage.rocksdb.settings\n"
        "import queryable_state.server.storage.rocksdb.settings\n"
        "sys.exit('rocksdict' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
