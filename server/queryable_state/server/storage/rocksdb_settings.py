"""What can be set on RocksDB, and the options that come of it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from rocksdict import BlockBasedOptions, Cache, DBCompressionType, Options, WriteOptions

from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from typing import Final

_BLOOM_BITS: Final = 10
_MEMTABLE_BLOOM_RATIO: Final = 0.1
_KEPT_LOG_FILES: Final = 2


@dataclass(frozen=True, kw_only=True)
class RocksDBSettings:
    """Sizes of RocksDB; equal settings share one block cache in a process."""

    block_cache_bytes: int = 128 * 1024 * 1024
    """Uncompressed blocks kept in memory, over all stores of the process."""

    write_buffer_bytes: int = 16 * 1024 * 1024
    """Size at which the memtable of one state is written out."""

    write_buffers: int = 3
    """Memtables of one state, the ones being written out among them."""

    background_jobs: int = 2
    """Flushes and compactions of one store at a time."""

    max_open_files: int = -1
    """Table files of one store kept open; -1: all of them."""

    def __post_init__(self) -> None:
        for name in ("block_cache_bytes", "write_buffer_bytes", "write_buffers", "background_jobs"):
            if getattr(self, name) <= 0:
                raise InvalidRequestError(
                    f"RocksDB setting {name} is {getattr(self, name)}: give it a positive number"
                )


def database_options(settings: RocksDBSettings) -> Options:
    """Options of a store, which every column family starts from."""
    table = BlockBasedOptions()
    table.set_block_cache(_block_cache(settings.block_cache_bytes))
    table.set_bloom_filter(_BLOOM_BITS, False)
    table.set_cache_index_and_filter_blocks(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.set_error_if_exists(True)
    options.set_block_based_table_factory(table)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_write_buffer_size(settings.write_buffer_bytes)
    options.set_max_write_buffer_number(settings.write_buffers)
    options.set_max_background_jobs(settings.background_jobs)
    options.set_max_open_files(settings.max_open_files)
    # Without both a miss in the memtable costs as much as a hit.
    options.set_memtable_whole_key_filtering(True)
    options.set_memtable_prefix_bloom_ratio(_MEMTABLE_BLOOM_RATIO)
    options.set_keep_log_file_num(_KEPT_LOG_FILES)
    options.set_stats_dump_period_sec(0)
    return options


def write_options() -> WriteOptions:
    """No write-ahead log: what must survive the process is in the checkpoint."""
    options = WriteOptions()
    options.disable_wal = True  # type: ignore[method-assign, assignment]
    return options


@cache
def _block_cache(size_bytes: int) -> Cache:
    return Cache(size_bytes)
