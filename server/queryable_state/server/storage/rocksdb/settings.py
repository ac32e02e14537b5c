"""Settings of RocksDB. Without rocksdict, because a driver checks settings too."""

from __future__ import annotations

from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, ClassVar, Self

from queryable_state.server.config.setting import GIB, KIB, MIB, TIB, SettingsGroup, setting
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final


DEFAULT: Final[Mapping[str, int | bool]] = MappingProxyType({})
"""The defaults of `RocksDBSettings`."""

SPINNING_DISK_OPTIMIZED: Final[Mapping[str, int | bool]] = MappingProxyType(
    {"background_jobs": 4, "max_open_files": -1, "dynamic_level_bytes": True}
)
"""For ordinary hard disks."""

SPINNING_DISK_OPTIMIZED_HIGH_MEM: Final[Mapping[str, int | bool]] = MappingProxyType(
    {
        **SPINNING_DISK_OPTIMIZED,
        "block_cache_bytes": 256 * MIB,
        "block_bytes": 128 * 1024,
        "write_buffer_bytes": 64 * MIB,
        "write_buffers": 4,
        "write_buffers_to_merge": 3,
        "target_file_bytes": 256 * MIB,
        "max_level_base_bytes": 1024 * MIB,
    }
)
"""For hard disks, with more memory for caching and compaction."""

FLASH_SSD_OPTIMIZED: Final[Mapping[str, int | bool]] = MappingProxyType(
    {"background_jobs": 4, "max_open_files": -1}
)
"""For solid state disks."""

PREDEFINED_OPTIONS: Final[Mapping[str, Mapping[str, int | bool]]] = MappingProxyType(
    {
        "DEFAULT": DEFAULT,
        "SPINNING_DISK_OPTIMIZED": SPINNING_DISK_OPTIMIZED,
        "SPINNING_DISK_OPTIMIZED_HIGH_MEM": SPINNING_DISK_OPTIMIZED_HIGH_MEM,
        "FLASH_SSD_OPTIMIZED": FLASH_SSD_OPTIMIZED,
    }
)
"""The profiles by their names."""


@dataclass(frozen=True, kw_only=True)
class RocksDBSettings(SettingsGroup):
    """Sizes of RocksDB; stores with the same cache size share one block cache in a process.

    Raises `InvalidRequestError` with the field's name for an invalid value.
    """

    block_cache_bytes: int = setting(128 * MIB, least=1, most=16 * TIB)
    """Uncompressed blocks kept in memory, over all stores of the process."""

    block_bytes: int = setting(4 * KIB, least=1, most=GIB)
    """Size of one block: a read loads whole blocks from disk into the cache."""

    write_buffer_bytes: int = setting(16 * MIB, least=1, most=64 * GIB)
    """Size at which the memtable of one state is flushed."""

    write_buffers: int = setting(3, least=1, most=1_000)
    """Memtables of one state, including those that are being flushed."""

    write_buffers_to_merge: int = setting(1, least=1, most=1_000)
    """Full memtables of one state that are flushed together; fewer than `write_buffers`."""

    background_jobs: int = setting(2, least=1, most=1_000)
    """Concurrent flushes and compactions of one store."""

    max_open_files: int = setting(-1, least=1, most=2**31 - 1, special=(-1,))
    """Table files that one store keeps open; -1: all."""

    target_file_bytes: int = setting(64 * MIB, least=1, most=TIB)
    """Size of a table file of the first levels."""

    max_level_base_bytes: int = setting(256 * MIB, least=1, most=64 * TIB)
    """Size of the first level that is compacted by size."""

    dynamic_level_bytes: bool = True
    """Derive the sizes of levels from the last one, which wastes the least space."""

    use_fsync: bool = False
    """Use fsync instead of fdatasync to force files to disk."""

    key_prefix: ClassVar[str] = "RocksDB setting "

    def check_relations(self) -> None:
        self.require(
            self.write_buffers_to_merge < self.write_buffers or self.write_buffers == 1,
            ("write_buffers_to_merge", "write_buffers"),
            "fewer buffers must be merged than there are",
        )

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Self:
        """The settings with these fields; raises `InvalidRequestError` for an unknown one."""
        known = {field.name for field in fields(cls)}
        unknown = sorted(set(values) - known)
        if unknown:
            raise InvalidRequestError(
                f"RocksDB has no setting {', '.join(map(repr, unknown))}: use one of "
                f"{', '.join(sorted(known))}"
            )
        return cls(**values)  # type: ignore[arg-type] # each is checked
