"""Options of rocksdict for a database."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from rocksdict import (
    BlockBasedIndexType,
    BlockBasedOptions,
    Cache,
    DBCompressionType,
    Options,
    WriteOptions,
)

if TYPE_CHECKING:
    from typing import Final

    from queryable_state.server.storage.rocksdb.settings import RocksDBSettings

_BLOOM_BITS: Final = 10
_METADATA_BLOCK_BYTES: Final = 4096
_MEMTABLE_BLOOM_RATIO: Final = 0.1
_KEPT_LOG_FILES: Final = 2


def database_options(settings: RocksDBSettings, *, new: bool = True) -> Options:
    """Options of a store and of each of its column families.

    A `new` database must not exist and is created; any other one must exist.
    """
    options = Options(raw_mode=True)
    options.create_if_missing(new)
    options.set_error_if_exists(new)
    configure(options, settings)
    options.set_compression_type(DBCompressionType.lz4())
    return options


def configure(options: Options, settings: RocksDBSettings) -> None:
    """Sets sizes, cache, tables and logs in options that may come from another system's files."""
    table = BlockBasedOptions()
    table.set_block_cache(_block_cache(settings.block_cache_bytes))
    table.set_block_size(settings.block_bytes)
    table.set_bloom_filter(_BLOOM_BITS, False)
    # Index and filters count against the cache, so that the setting bounds the memory. They are
    # partitioned: the whole filter of a table is larger than a shard of the cache keeps, and
    # every read of a store larger than the cache would load it again.
    table.set_cache_index_and_filter_blocks(True)
    table.set_index_type(BlockBasedIndexType.two_level_index_search())
    table.set_partition_filters(True)
    table.set_metadata_block_size(_METADATA_BLOCK_BYTES)
    table.set_pin_top_level_index_and_filter(True)
    table.set_pin_l0_filter_and_index_blocks_in_cache(True)
    options.set_block_based_table_factory(table)
    options.set_write_buffer_size(settings.write_buffer_bytes)
    options.set_max_write_buffer_number(settings.write_buffers)
    options.set_min_write_buffer_number_to_merge(settings.write_buffers_to_merge)
    options.set_max_background_jobs(settings.background_jobs)
    options.set_max_open_files(settings.max_open_files)
    options.set_target_file_size_base(settings.target_file_bytes)
    options.set_max_bytes_for_level_base(settings.max_level_base_bytes)
    options.set_level_compaction_dynamic_level_bytes(settings.dynamic_level_bytes)
    options.set_use_fsync(settings.use_fsync)
    # Without both settings a miss in the memtable costs as much as a hit.
    options.set_memtable_whole_key_filtering(True)
    options.set_memtable_prefix_bloom_ratio(_MEMTABLE_BLOOM_RATIO)
    options.set_keep_log_file_num(_KEPT_LOG_FILES)
    options.set_stats_dump_period_sec(0)


def write_options() -> WriteOptions:
    """Options of every write: no write-ahead log, because changelogs make state durable."""
    options = WriteOptions()
    options.disable_wal = True  # type: ignore[method-assign, assignment]
    return options


@cache
def _block_cache(size_bytes: int) -> Cache:
    return Cache(size_bytes)
