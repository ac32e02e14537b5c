"""PyFlink's state backends: constructors, getters, defaults."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.streaming import (
    CustomStateBackend,
    FsStateBackend,
    MemoryStateBackend,
    PredefinedOptions,
    RocksDBStateBackend,
)
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable

FACTORIES = "tests.streaming.backend_factories"


def test_the_memory_backend_has_pyflinks_defaults() -> None:
    backend = MemoryStateBackend()
    assert backend.get_max_state_size() == 5 * 1024 * 1024
    assert backend.is_using_asynchronous_snapshots()
    assert backend.kind == "heap"
    assert not MemoryStateBackend(
        using_asynchronous_snapshots=False
    ).is_using_asynchronous_snapshots()
    assert MemoryStateBackend(max_state_size=7).get_max_state_size() == 7


def test_the_file_system_backend_has_pyflinks_defaults() -> None:
    backend = FsStateBackend("file:///tmp/checkpoints")
    assert backend.get_checkpoint_path() == "file:///tmp/checkpoints"
    assert backend.get_min_file_size_threshold() == 20480
    assert backend.get_write_buffer_size() == 4096
    assert backend.is_using_asynchronous_snapshots()
    given = FsStateBackend("/c", "/s", 100, 200, False)
    assert given.savepoint_directory == "/s"
    assert (given.get_min_file_size_threshold(), given.get_write_buffer_size()) == (100, 200)
    assert not given.is_using_asynchronous_snapshots()


def test_the_rocksdb_backend_has_pyflinks_defaults() -> None:
    backend = RocksDBStateBackend("/c")
    assert backend.kind == "rocksdb"
    stream = backend.get_checkpoint_backend()
    assert isinstance(stream, FsStateBackend)
    assert stream.get_checkpoint_path() == "/c"
    assert not backend.is_incremental_checkpoints_enabled()
    assert RocksDBStateBackend("/c", True).is_incremental_checkpoints_enabled()
    assert backend.get_db_storage_paths() == []
    assert backend.get_predefined_options() is PredefinedOptions.DEFAULT
    assert backend.get_options() is None
    assert backend.get_number_of_transfering_threads() == 1
    assert backend.is_ttl_compaction_filter_enabled()


def test_what_is_set_on_the_rocksdb_backend_is_answered() -> None:
    backend = RocksDBStateBackend(checkpoint_stream_backend=MemoryStateBackend())
    assert backend.checkpoint_directory is None
    backend.set_db_storage_paths("/a", "/b")
    assert backend.get_db_storage_paths() == ["/a", "/b"]
    backend.set_db_storage_paths(None)
    assert backend.get_db_storage_paths() == []
    backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
    assert backend.get_predefined_options() is PredefinedOptions.FLASH_SSD_OPTIMIZED
    backend.set_options(f"{FACTORIES}.SmallBuffers")
    assert backend.get_options() == f"{FACTORIES}.SmallBuffers"
    backend.set_number_of_transfering_threads(3)
    assert backend.get_number_of_transfering_threads() == 3
    backend.disable_ttl_compaction_filter()
    assert not backend.is_ttl_compaction_filter_enabled()
    backend.enable_ttl_compaction_filter()
    assert backend.is_ttl_compaction_filter_enabled()


def test_a_custom_backend_is_made_of_the_configuration() -> None:
    backend = CustomStateBackend(f"{FACTORIES}.FromConfig").create({"state.checkpoints.dir": "/c"})
    assert isinstance(backend, FsStateBackend)
    assert backend.get_checkpoint_path() == "/c/custom"


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: MemoryStateBackend(max_state_size=-1), "max_state_size must be at least 1"),
        (lambda: MemoryStateBackend(checkpoint_path=""), "checkpoint_path is empty"),
        (lambda: FsStateBackend(None), "needs a checkpoint_directory_uri"),  # type: ignore[arg-type]
        (lambda: FsStateBackend("/c", file_state_size_threshold=2**21), "at most 1048576"),
        (lambda: RocksDBStateBackend(), "needs a checkpoint_data_uri"),
        (
            lambda: RocksDBStateBackend(checkpoint_stream_backend=RocksDBStateBackend("/c")),
            "must be a MemoryStateBackend or an FsStateBackend",
        ),
        (lambda: RocksDBStateBackend("/c").set_db_storage_paths("x"), "absolute local paths"),
        (
            lambda: RocksDBStateBackend("/c").set_predefined_options(9),  # type: ignore[arg-type]
            "DEFAULT, SPINNING_DISK_OPTIMIZED",
        ),
        (lambda: RocksDBStateBackend("/c").set_options("no.such.Class"), "cannot be loaded"),
        (
            lambda: RocksDBStateBackend("/c").set_options(f"{FACTORIES}.FromConfig"),
            "not a class with a method create_options",
        ),
        (lambda: CustomStateBackend("nonsense"), "'module.Class'"),
        (lambda: CustomStateBackend(f"{FACTORIES}.Nothing").create({}), "returned None"),
    ],
)
def test_what_cannot_be_is_refused(make: Callable[[], Any], text: str) -> None:
    with pytest.raises(InvalidRequestError, match=text):
        make()


def test_a_slash_at_the_end_of_a_uri_is_dropped() -> None:
    assert FsStateBackend("file://var/checkpoints/").get_checkpoint_path() == (
        "file://var/checkpoints"
    )
    stream = RocksDBStateBackend("file://var/checkpoints/").get_checkpoint_backend()
    assert stream.checkpoint_directory == "file://var/checkpoints"
    assert MemoryStateBackend("file:///").checkpoint_directory == "file:///"
