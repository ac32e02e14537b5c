"""Where a job's state goes, and what the coordinator is told of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.streaming import (
    CheckpointConfig,
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    EnvironmentSettings,
    ExternalizedCheckpointCleanup,
    FsStateBackend,
    HashMapStateBackend,
    MemoryStateBackend,
    PredefinedOptions,
    RocksDBStateBackend,
)
from queryable_state.streaming.config.job_configuration import backend_of, config_id, job_config
from queryable_state.streaming.config.state_paths import paths_of
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.server.coordinator.model.job_config import JobConfig
    from queryable_state.streaming import StateBackend
    from queryable_state.streaming.config.state_paths import StatePaths

FACTORIES = "tests.streaming.backend_factories"


def place(
    backend: StateBackend | None = None,
    location: str | None = None,
    *,
    session_location: str = "",
    enabled: bool = False,
    restarts: bool = False,
    **values: Any,
) -> StatePaths:
    settings = EnvironmentSettings(**values)
    return paths_of(
        settings,
        backend_of(settings, backend),
        "my job",
        checkpoint_location=location,
        session_location=session_location,
        checkpointing_enabled=enabled,
        restarts=restarts,
        scratch=lambda: "file:///scratch/1",
    )


def config(
    backend: StateBackend | None = None,
    checkpoints: CheckpointConfig | None = None,
    root: str = "/r",
    **values: Any,
) -> JobConfig:
    settings = EnvironmentSettings(**values)
    return job_config(
        settings, backend_of(settings, backend), checkpoints or CheckpointConfig(), state_root=root
    )


def test_a_directory_has_a_folder_for_each_job() -> None:
    found = place(checkpoint_directory="/c")
    assert found.state_root == "/c/my%20job"
    assert found.spark_location == "file:///c/my%20job/spark"
    assert found.owned


def test_a_location_that_is_given_is_sparks_whatever_the_directory() -> None:
    found = place(location="/x", checkpoint_directory="s3a://bucket/c")
    assert found.state_root == "s3a://bucket/c/my%20job"
    assert (found.spark_location, found.owned) == ("/x", False)


def test_a_location_alone_has_the_state_beside_it() -> None:
    found = place(location="/x/")
    assert (found.state_root, found.root) == ("", "/x.queryable-state")


def test_paths_are_from_the_drivers_folder_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert place(checkpoint_directory="c").state_root == f"{tmp_path}/c/my%20job"


def test_an_empty_location_is_refused_and_not_the_drivers_folder() -> None:
    with pytest.raises(InvalidRequestError, match="is an empty text: pass a folder or a URI"):
        place(location="")


def test_without_any_place_nothing_lasts() -> None:
    found = place()
    assert (found.root, found.spark_location) == ("", None)
    assert place(session_location="/spark").spark_location is None


def test_a_job_that_may_be_restarted_has_a_location_that_lasts_as_long_as_the_driver() -> None:
    assert place(restarts=True).spark_location == "file:///scratch/1"


def test_checkpointing_without_a_place_is_in_the_drivers_memory() -> None:
    found = place(enabled=True, restarts=True)
    assert found.in_driver
    assert found.spark_location == "file:///scratch/1"
    assert place(enabled=True).state_root != found.state_root
    assert config(root=found.state_root).max_state_bytes == 5 * 1024 * 1024
    assert not place(enabled=True, session_location="/spark").in_driver


def test_the_memory_backend_keeps_state_in_the_driver_unless_it_has_a_path() -> None:
    assert place(MemoryStateBackend()).in_driver
    again = [place(MemoryStateBackend(), "/x").state_root for _ in range(2)]
    assert again[0] == again[1]
    assert place(MemoryStateBackend("/m")).state_root == "/m/my%20job"
    assert place(MemoryStateBackend(), checkpoint_directory="/c").state_root == "/c/my%20job"
    assert place(backend=None, checkpoint_directory="").root == ""


def test_the_jobs_own_directory_comes_before_the_configured_one() -> None:
    assert place(FsStateBackend("/own"), checkpoint_directory="/c").state_root == "/own/my%20job"
    assert place(RocksDBStateBackend("/own")).state_root == "/own/my%20job"


def test_without_changelog_there_is_no_place() -> None:
    assert place(checkpoint_directory="/c", changelog="off").spark_location is None
    assert place(MemoryStateBackend(), changelog="off").state_root == ""
    assert not config(changelog="off").changelog


def test_a_job_that_must_be_durable_is_refused_without_a_place() -> None:
    with pytest.raises(InvalidRequestError, match=r"state\.checkpoints\.dir"):
        place(changelog="on")
    assert place(location="/x", changelog="on").root == "/x.queryable-state"


def test_a_backend_by_name_is_pyflinks() -> None:
    settings = EnvironmentSettings
    assert isinstance(backend_of(settings(backend="heap"), None), HashMapStateBackend)
    assert isinstance(backend_of(settings(), None), HashMapStateBackend)
    assert backend_of(settings(backend="rocksdb"), None).kind == "rocksdb"
    assert isinstance(backend_of(settings(backend="jobmanager"), None), MemoryStateBackend)
    files = backend_of(settings(backend="filesystem", checkpoint_directory="/c"), None)
    assert isinstance(files, FsStateBackend)
    with pytest.raises(InvalidRequestError, match=r"state\.checkpoints\.dir"):
        backend_of(settings(backend="filesystem"), None)
    custom = settings(backend=f"{FACTORIES}.FromConfig", checkpoint_directory="/c")
    for made in (
        backend_of(custom, None),
        backend_of(custom, CustomStateBackend(custom.backend)),
    ):
        assert isinstance(made, FsStateBackend)
        assert made.get_checkpoint_path() == "/c/custom"


def test_the_coordinator_is_told_what_is_configured() -> None:
    told = config(
        EmbeddedRocksDBStateBackend(),
        storage_options={"anon": True},
        fsync=True,
        memory_threshold_bytes=5,
        retained_checkpoints=3,
        transfer_threads=2,
        rocksdb_directories="/a, /b",
        savepoint_directory="/s",
        allow_missing_state=True,
    )
    assert (told.state_root, told.backend) == ("/r", "rocksdb")
    assert (told.storage_options, told.fsync, told.inline_bytes) == ({"anon": True}, True, 5)
    assert (told.retained_checkpoints, told.transfer_threads) == (3, 2)
    assert told.rocksdb_directories == ("/a", "/b")
    assert (told.savepoint_directory, told.allow_missing_state) == ("/s", True)
    assert (told.checkpoint_interval_ms, told.tolerable_failures) == (60_000, -1)
    assert told.incremental
    assert not told.delete_on_cancellation


def test_the_jobs_own_setting_comes_before_the_configured_one() -> None:
    backend = RocksDBStateBackend("/c", False)
    backend.set_db_storage_paths("/own")
    backend.set_number_of_transfering_threads(7)
    told = config(backend, incremental=True, rocksdb_directories="/a", transfer_threads=2)
    assert not told.incremental
    assert (told.rocksdb_directories, told.transfer_threads) == (("/own",), 7)
    assert config(FsStateBackend("/c", file_state_size_threshold=0)).inline_bytes == 0
    assert config(FsStateBackend("/c"), memory_threshold_bytes=9).inline_bytes == 9
    assert config(FsStateBackend("/c")).backend == "heap"


def test_what_a_backend_leaves_open_is_configured() -> None:
    backend = RocksDBStateBackend("/c")
    assert not config(backend).incremental
    assert config(backend, transfer_threads=9).transfer_threads == 9


def test_the_memory_backend_limits_its_states() -> None:
    assert config(MemoryStateBackend(max_state_size=99)).max_state_bytes == 99
    both = RocksDBStateBackend(checkpoint_stream_backend=MemoryStateBackend())
    assert config(both).max_state_bytes == 5 * 1024 * 1024
    assert config().max_state_bytes == 0


def test_options_of_rocksdb_are_the_factorys_on_top_of_the_profile() -> None:
    backend = RocksDBStateBackend("/c")
    backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
    assert config(backend).rocksdb["background_jobs"] == 4
    backend.set_options(f"{FACTORIES}.SmallBuffers")
    assert config(backend).rocksdb["write_buffer_bytes"] == 1 << 20
    by_name = config(
        rocksdb_predefined_options="flash_ssd_optimized",
        rocksdb_options_factory=f"{FACTORIES}.SmallBuffers",
    )
    assert by_name.rocksdb == config(backend).rocksdb
    backend.set_options(f"{FACTORIES}.UnknownOptions")
    with pytest.raises(InvalidRequestError, match="speed"):
        config(backend)
    with pytest.raises(InvalidRequestError, match="SPINNING_DISK_OPTIMIZED"):
        config(rocksdb_predefined_options="fast")


def test_the_coordinator_is_told_of_checkpointing() -> None:
    checkpoints = CheckpointConfig()
    checkpoints.set_checkpoint_interval(100)
    checkpoints.set_min_pause_between_checkpoints(5)
    checkpoints.set_checkpoint_timeout(50)
    checkpoints.enable_externalized_checkpoints(
        ExternalizedCheckpointCleanup.DELETE_ON_CANCELLATION
    )
    checkpoints.set_prefer_checkpoint_for_recovery(True)
    told = config(checkpoints=checkpoints)
    assert told.prefer_checkpoint
    assert (told.checkpoint_interval_ms, told.min_pause_ms) == (100, 5)
    assert (told.checkpoint_timeout_ms, told.tolerable_failures) == (50, 0)
    assert told.delete_on_cancellation


def test_equal_configurations_have_one_id() -> None:
    assert config_id(config()) == config_id(config())
    assert config_id(config()) != config_id(config(root="/other"))
