"""CheckpointConfig: PyFlink's defaults and bounds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.streaming import (
    CheckpointConfig,
    CheckpointingMode,
    Duration,
    EnvironmentSettings,
    ExternalizedCheckpointCleanup,
    FileSystemCheckpointStorage,
    JobManagerCheckpointStorage,
)
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable


def test_the_defaults_are_pyflinks() -> None:
    config = CheckpointConfig()
    assert not config.is_checkpointing_enabled()
    assert config.get_checkpoint_interval() == -1
    assert config.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
    assert config.get_checkpoint_timeout() == 600_000
    assert config.get_min_pause_between_checkpoints() == 0
    assert config.get_max_concurrent_checkpoints() == 1
    assert config.is_fail_on_checkpointing_errors()
    assert config.get_tolerable_checkpoint_failure_number() == 0
    assert not config.is_externalized_checkpoints_enabled()
    assert config.get_externalized_checkpoint_cleanup() is None
    assert not config.is_prefer_checkpoint_for_recovery()
    assert not config.is_unaligned_checkpoints_enabled()


def test_what_is_set_is_answered() -> None:
    config = CheckpointConfig()
    config.set_checkpoint_interval(10)
    config.set_checkpoint_timeout(20)
    config.set_min_pause_between_checkpoints(30)
    config.set_max_concurrent_checkpoints(4)
    config.set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
    config.enable_externalized_checkpoints(ExternalizedCheckpointCleanup.DELETE_ON_CANCELLATION)
    config.set_prefer_checkpoint_for_recovery(True)
    assert config.is_checkpointing_enabled()
    assert config.get_checkpoint_interval() == 10
    assert config.get_checkpoint_timeout() == 20
    assert config.get_min_pause_between_checkpoints() == 30
    assert config.get_max_concurrent_checkpoints() == 4
    assert config.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    cleanup = config.get_externalized_checkpoint_cleanup()
    assert cleanup is ExternalizedCheckpointCleanup.DELETE_ON_CANCELLATION
    assert config.is_prefer_checkpoint_for_recovery()


def test_failures_are_tolerated_as_they_are_asked_for() -> None:
    """Without checkpointing enabled, checkpoints are made unasked, and their failures only told."""
    config = CheckpointConfig()
    assert config.tolerable_failures == -1
    config.set_checkpoint_interval(1000)
    assert config.tolerable_failures == 0
    config.set_fail_on_checkpointing_errors(False)
    assert config.tolerable_failures == -1
    config.set_tolerable_checkpoint_failure_number(3)
    config.set_fail_on_checkpointing_errors(True)
    assert config.tolerable_failures == config.get_tolerable_checkpoint_failure_number() == 3


def test_it_starts_from_what_is_configured() -> None:
    settings = EnvironmentSettings(
        checkpoint_interval_ms=5000,
        checkpointing_mode="at_least_once",
        externalized_retention="RETAIN_ON_CANCELLATION",
        tolerable_failed_checkpoints=2,
    )
    config = CheckpointConfig.of(settings)
    assert config.get_checkpoint_interval() == 5000
    assert config.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    cleanup = config.get_externalized_checkpoint_cleanup()
    assert cleanup is ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION
    assert config.tolerable_failures == 2


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (lambda config: config.set_checkpoint_interval(9), "at least 10, not 9"),
        (lambda config: config.set_checkpoint_timeout(0), "at least 10, not 0"),
        (lambda config: config.set_min_pause_between_checkpoints(-1), "at least 0, not -1"),
        (lambda config: config.set_max_concurrent_checkpoints(0), "at least 1, not 0"),
        (lambda config: config.set_tolerable_checkpoint_failure_number(-1), "at least 0"),
        (lambda config: config.set_checkpointing_mode(5), "EXACTLY_ONCE"),
        (lambda config: config.enable_externalized_checkpoints(5), "DELETE_ON_CANCELLATION"),
    ],
)
def test_what_cannot_be_is_refused(change: Callable[[CheckpointConfig], Any], text: str) -> None:
    with pytest.raises(InvalidRequestError, match=text):
        change(CheckpointConfig())


def test_unaligned_checkpoints_are_for_exactly_once() -> None:
    config = CheckpointConfig()
    config.enable_unaligned_checkpoints()
    assert config.is_unaligned_checkpoints_enabled()
    with pytest.raises(InvalidRequestError, match="EXACTLY_ONCE"):
        config.set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
    config.disable_unaligned_checkpoints()
    config.set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
    with pytest.raises(InvalidRequestError, match="EXACTLY_ONCE"):
        config.enable_unaligned_checkpoints()


def test_setters_return_the_configuration() -> None:
    config = CheckpointConfig()
    assert (
        config.set_checkpoint_interval(1000)
        .set_checkpoint_timeout(1000)
        .set_min_pause_between_checkpoints(1)
        .set_max_concurrent_checkpoints(2)
        .set_checkpointing_mode(CheckpointingMode.EXACTLY_ONCE)
        .set_fail_on_checkpointing_errors(True)
        .set_tolerable_checkpoint_failure_number(1)
        .set_prefer_checkpoint_for_recovery(False)
        .enable_unaligned_checkpoints()
        .disable_unaligned_checkpoints()
        .set_force_unaligned_checkpoints()
        .set_alignment_timeout(Duration.of_minutes(1))
        .set_checkpoint_storage_dir("/c")
    ) is config


def test_unaligned_settings_are_kept() -> None:
    config = CheckpointConfig()
    assert not config.is_force_unaligned_checkpoints()
    assert config.get_alignment_timeout() == Duration.of_millis(0)
    config.set_force_unaligned_checkpoints(True)
    config.set_alignment_timeout(Duration.of_minutes(1))
    assert config.is_force_unaligned_checkpoints()
    assert config.get_alignment_timeout() == Duration.of_seconds(60)


@pytest.mark.parametrize(
    ("cleanup", "externalized"),
    [
        (ExternalizedCheckpointCleanup.RETAIN_ON_CANCELLATION, True),
        (ExternalizedCheckpointCleanup.DELETE_ON_CANCELLATION, True),
        (ExternalizedCheckpointCleanup.NO_EXTERNALIZED_CHECKPOINTS, False),
    ],
)
def test_each_cleanup_is_set_by_all_its_names(
    cleanup: ExternalizedCheckpointCleanup, externalized: bool
) -> None:
    for name in (
        "enable_externalized_checkpoints",
        "set_externalized_checkpoint_cleanup",
        "set_externalized_checkpoint_retention",
    ):
        config = CheckpointConfig()
        assert getattr(config, name)(cleanup) is config
        assert config.get_externalized_checkpoint_cleanup() is cleanup
        assert config.get_externalized_checkpoint_retention() is cleanup
        assert config.is_externalized_checkpoints_enabled() is externalized


def test_a_checkpoint_storage_is_kept() -> None:
    config = CheckpointConfig()
    assert config.get_checkpoint_storage() is None
    storage = JobManagerCheckpointStorage(max_state_size=5)
    assert config.set_checkpoint_storage(storage).get_checkpoint_storage() is storage
    found = config.set_checkpoint_storage_dir("file:///c/").get_checkpoint_storage()
    assert isinstance(found, FileSystemCheckpointStorage)
    assert found.get_checkpoint_path() == "file:///c"
    with pytest.raises(InvalidRequestError, match="FileSystemCheckpointStorage"):
        config.set_checkpoint_storage("/c")  # type: ignore[arg-type]
