"""The profiles of `PredefinedOptions`, as fields of `RocksDBSettings`."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final

_MIB: Final = 1024 * 1024

DEFAULT: Final[Mapping[str, int | bool]] = MappingProxyType({})
"""What `RocksDBSettings` starts from."""

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
