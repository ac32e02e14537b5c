"""Settings of RocksDB. Without rocksdict, because a driver checks settings too."""

from __future__ import annotations

from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import TYPE_CHECKING, Self

from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final


_LARGEST = 2**63 - 1

_MIB: Final = 1024 * 1024

DEFAULT: Final[Mapping[str, int | bool]] = MappingProxyType({})
"""The defaults of `RocksDBSettings`."""

SPINNING_DISK_OPTIMIZED: Final[Mapping[str, int | bool]] = MappingProxyType(
    {"background_jobs": 4, "max_open_files": -1, "dynamic_level_bytes": True}
)
"""For ordinary hard disks."""

SPINNING_DISK_OPTIMIZED_HIGH_MEM: Final[Mapping[str, int | bool]] = MappingProxyType(
    {
        **SPINNING_DISK_OPTIMIZED,
        "block_cache_bytes": 256 * _MIB,
        "block_bytes": 128 * 1024,
        "write_buffer_bytes": 64 * _MIB,
        "write_buffers": 4,
        "write_buffers_to_merge": 3,
        "target_file_bytes": 256 * _MIB,
        "max_level_base_bytes": 1024 * _MIB,
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
class RocksDBSettings:
    """Sizes of RocksDB; stores with the same cache size share one block cache in a process.

    Raises `InvalidRequestError` with the field's name for an invalid value.
    """

    block_cache_bytes: int = 128 * 1024 * 1024
    """Uncompressed blocks kept in memory, over all stores of the process."""

    block_bytes: int = 4 * 1024
    """Size of one block: a read loads whole blocks from disk into the cache."""

    write_buffer_bytes: int = 16 * 1024 * 1024
    """Size at which the memtable of one state is flushed."""

    write_buffers: int = 3
    """Memtables of one state, including those that are being flushed."""

    write_buffers_to_merge: int = 1
    """Full memtables of one state that are flushed together; fewer than `write_buffers`."""

    background_jobs: int = 2
    """Concurrent flushes and compactions of one store."""

    max_open_files: int = -1
    """Table files that one store keeps open; -1: all."""

    target_file_bytes: int = 64 * 1024 * 1024
    """Size of a table file of the first levels."""

    max_level_base_bytes: int = 256 * 1024 * 1024
    """Size of the first level that is compacted by size."""

    dynamic_level_bytes: bool = True
    """Derive the sizes of levels from the last one, which wastes the least space."""

    use_fsync: bool = False
    """Use fsync instead of fdatasync to force files to disk."""

    def __post_init__(self) -> None:
        for field in fields(self):
            _check(field.name, getattr(self, field.name), field.default)
        if self.write_buffers_to_merge >= self.write_buffers > 1:
            raise InvalidRequestError(
                f"RocksDB setting write_buffers_to_merge is {self.write_buffers_to_merge}: it must "
                f"be below write_buffers, which is {self.write_buffers}"
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


def _check(name: str, value: object, default: object) -> None:
    if isinstance(default, bool):
        if not isinstance(value, bool):
            raise InvalidRequestError(f"RocksDB setting {name} is {value!r}: give it True or False")
        return
    unlimited = name == "max_open_files"
    if (
        isinstance(value, bool)
        or not isinstance(value, int)
        or not (0 < value <= _LARGEST or (unlimited and value == -1))
    ):
        raise InvalidRequestError(
            f"RocksDB setting {name} is {value!r}: give it a positive whole number"
            f"{' or -1' if unlimited else ''}"
        )
