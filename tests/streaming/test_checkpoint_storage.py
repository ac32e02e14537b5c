"""Checkpoint storages and the state backends that have no location of their own."""

from __future__ import annotations

import pytest

from queryable_state.streaming import (
    CheckpointConfig,
    EmbeddedRocksDBStateBackend,
    EnvironmentSettings,
    FileSystemCheckpointStorage,
    FsStateBackend,
    HashMapStateBackend,
    JobManagerCheckpointStorage,
    MemoryStateBackend,
    RocksDBStateBackend,
    StateBackend,
)
from queryable_state.streaming.config.job_configuration import backend_of, job_config
from queryable_state.streaming.config.state_paths import keeps_in_driver
from queryable_state.wire.errors import InvalidRequestError

SETTINGS = EnvironmentSettings()
FILES = FileSystemCheckpointStorage("/files", 2048)
DRIVER = JobManagerCheckpointStorage(max_state_size=99)


def test_the_defaults_are_pyflinks() -> None:
    assert JobManagerCheckpointStorage.DEFAULT_MAX_STATE_SIZE == 5 * 1024 * 1024
    assert FileSystemCheckpointStorage.MAX_FILE_STATE_THRESHOLD == 1024 * 1024
    driver = JobManagerCheckpointStorage()
    assert driver.get_checkpoint_path() is None
    assert driver.get_max_state_size() == JobManagerCheckpointStorage.DEFAULT_MAX_STATE_SIZE
    assert JobManagerCheckpointStorage("file://var/c/", 7).get_max_state_size() == 7
    files = FileSystemCheckpointStorage("file://var/checkpoints/")
    assert files.get_checkpoint_path() == "file://var/checkpoints"
    assert files.get_savepoint_path() is None
    assert files.get_min_file_size_threshold() == 20480
    assert files.get_write_buffer_size() == 4096
    assert FileSystemCheckpointStorage("/c", 2048, 4096).get_write_buffer_size() == 4096


@pytest.mark.parametrize("kind", ["heap", "rocksdb"])
def test_a_storage_is_the_location_of_a_backend_without_one(kind: str) -> None:
    backend: StateBackend = HashMapStateBackend()
    if kind == "rocksdb":
        backend = EmbeddedRocksDBStateBackend()
    stored = backend_of(SETTINGS, backend, FILES)
    assert (stored.kind, stored.checkpoint_directory) == (kind, "/files")
    assert not keeps_in_driver(SETTINGS, stored)
    config = job_config(SETTINGS, stored, CheckpointConfig(), state_root="/r")
    assert (config.backend, config.inline_bytes) == (kind, 2048)
    in_driver = backend_of(SETTINGS, backend, DRIVER)
    assert in_driver.kind == kind
    assert keeps_in_driver(SETTINGS, in_driver)
    config = job_config(SETTINGS, in_driver, CheckpointConfig(), state_root="/r")
    assert (config.backend, config.max_state_bytes) == (kind, 99)


@pytest.mark.parametrize(
    "backend", [MemoryStateBackend("/own"), FsStateBackend("/own"), RocksDBStateBackend("/own")]
)
def test_a_backend_with_a_location_keeps_it(backend: StateBackend) -> None:
    assert backend_of(SETTINGS, backend, FILES) is backend


def test_options_of_rocksdb_stay_with_a_storage() -> None:
    backend = EmbeddedRocksDBStateBackend(False)
    backend.set_db_storage_paths("/disk")
    backend.set_number_of_transfer_threads(9)
    stored = backend_of(SETTINGS, backend, FILES)
    config = job_config(SETTINGS, stored, CheckpointConfig(), state_root="/r")
    assert config.rocksdb_directories == ("/disk",)
    assert (config.transfer_threads, config.incremental) == (9, False)
    assert backend.checkpoint_directory is None


def test_the_configured_storage_counts_without_a_given_one() -> None:
    settings = EnvironmentSettings(checkpoint_storage="jobmanager")
    assert keeps_in_driver(settings, backend_of(settings, None))
    assert backend_of(settings, None, FILES).checkpoint_directory == "/files"
    with pytest.raises(InvalidRequestError, match=r"set state\.checkpoints\.dir"):
        backend_of(EnvironmentSettings(checkpoint_storage="filesystem"), None)


def test_the_embedded_backend_takes_what_it_leaves_open_from_the_settings() -> None:
    settings = EnvironmentSettings(incremental=False, transfer_threads=3)
    config = job_config(
        settings, EmbeddedRocksDBStateBackend(), CheckpointConfig(), state_root="/r"
    )
    assert (config.incremental, config.transfer_threads) == (False, 3)
    explicit = EmbeddedRocksDBStateBackend(True)
    assert job_config(settings, explicit, CheckpointConfig(), state_root="/r").incremental
    assert EmbeddedRocksDBStateBackend().get_number_of_transfer_threads() == 4


def test_uris_of_files_are_storage_paths() -> None:
    backend = EmbeddedRocksDBStateBackend()
    backend.set_db_storage_paths("file://var/one/", "file:///two", "/three")
    assert backend.get_db_storage_paths() == ["/one", "/two", "/three"]
