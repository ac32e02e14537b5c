"""ExecutionConfig: PyFlink's defaults, kept values, and the options that work."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.streaming import (
    EnvironmentSettings,
    ExecutionConfig,
    ExecutionMode,
    InputDependencyConstraint,
    RestartStrategies,
)
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable

SWITCHES = [
    ("enable_closure_cleaner", "disable_closure_cleaner", "is_closure_cleaner_enabled", True),
    ("enable_force_kryo", "disable_force_kryo", "is_force_kryo_enabled", False),
    ("enable_force_avro", "disable_force_avro", "is_force_avro_enabled", False),
    ("disable_generic_types", "enable_generic_types", "has_generic_types_disabled", False),
    ("enable_object_reuse", "disable_object_reuse", "is_object_reuse_enabled", False),
    ("enable_sysout_logging", "disable_sysout_logging", "is_sysout_logging_enabled", True),
    (
        "enable_auto_generated_uids",
        "disable_auto_generated_uids",
        "has_auto_generated_uids_enabled",
        True,
    ),
]


@pytest.mark.parametrize(("on", "off", "state", "default"), SWITCHES, ids=lambda value: str(value))
def test_a_switch_is_kept_and_returned(on: str, off: str, state: str, default: bool) -> None:
    config = ExecutionConfig()
    assert getattr(config, state)() is default
    assert getattr(config, on)() is config
    assert getattr(config, state)() is True
    assert getattr(config, off)() is config
    assert getattr(config, state)() is False


@pytest.mark.parametrize(
    ("name", "default"),
    [
        ("auto_watermark_interval", 200),
        ("latency_tracking_interval", 0),
        ("task_cancellation_interval", 30_000),
        ("task_cancellation_timeout", 180_000),
    ],
)
def test_a_time_has_flinks_default_and_is_kept(name: str, default: int) -> None:
    config = ExecutionConfig()
    assert getattr(config, f"get_{name}")() == default
    assert getattr(config, f"set_{name}")(1234) is config
    assert getattr(config, f"get_{name}")() == 1234


@pytest.mark.parametrize("mode", ExecutionMode)
def test_an_execution_mode_is_kept(mode: ExecutionMode) -> None:
    config = ExecutionConfig()
    assert config.get_execution_mode() is ExecutionMode.PIPELINED
    assert config.set_execution_mode(mode).get_execution_mode() is mode


@pytest.mark.parametrize("constraint", InputDependencyConstraint)
def test_an_input_dependency_constraint_is_kept(constraint: InputDependencyConstraint) -> None:
    config = ExecutionConfig().set_default_input_dependency_constraint(constraint)
    assert config.get_default_input_dependency_constraint() is constraint


def test_the_parallelism_is_reset_by_flinks_constants() -> None:
    config = ExecutionConfig()
    assert (config.PARALLELISM_DEFAULT, config.PARALLELISM_UNKNOWN) == (-1, -2)
    assert config.get_parallelism() == -1
    config.set_parallelism(8)
    config.set_parallelism(config.PARALLELISM_UNKNOWN)
    assert config.get_parallelism() == 8
    config.set_parallelism(config.PARALLELISM_DEFAULT)
    assert config.get_parallelism() == -1
    assert config.set_max_parallelism(16).get_max_parallelism() == 16


@pytest.mark.parametrize(
    "change",
    [
        lambda config: config.set_parallelism(0),
        lambda config: config.set_parallelism(129),
        lambda config: config.set_max_parallelism(0),
        lambda config: config.set_max_parallelism(32_768),
        lambda config: config.set_parallelism(20).set_max_parallelism(10),
        lambda config: config.set_auto_watermark_interval(-1),
        lambda config: config.set_restart_strategy("none"),
    ],
)
def test_an_impossible_value_is_refused(change: Callable[[ExecutionConfig], Any]) -> None:
    with pytest.raises(InvalidRequestError):
        change(ExecutionConfig())


def test_a_restart_strategy_is_kept() -> None:
    config = ExecutionConfig()
    assert config.get_restart_strategy() == RestartStrategies.fall_back_restart()
    for strategy in (
        RestartStrategies.no_restart(),
        RestartStrategies.fixed_delay_restart(4, 10_000),
        RestartStrategies.failure_rate_restart(5, 10_000, 5_000),
    ):
        assert config.set_restart_strategy(strategy).get_restart_strategy() == strategy


def test_registered_types_and_serializers_are_returned() -> None:
    config = (
        ExecutionConfig()
        .add_default_kryo_serializer("a.Type", "a.Serializer")
        .register_type_with_kryo_serializer("b.Type", "b.Serializer")
        .register_pojo_type("c.Type")
        .register_pojo_type("c.Type")
        .register_kryo_type("d.Type")
    )
    assert config.get_default_kryo_serializer_classes() == {"a.Type": "a.Serializer"}
    assert config.get_registered_types_with_kryo_serializer_classes() == {"b.Type": "b.Serializer"}
    assert config.get_registered_pojo_types() == ["c.Type"]
    assert config.get_registered_kryo_types() == ["d.Type"]


def test_job_parameters_are_kept_as_texts() -> None:
    config = ExecutionConfig().set_global_job_parameters({"a": 1, "b": "x"})
    assert config.get_global_job_parameters() == {"a": "1", "b": "x"}


def test_automatic_type_registration_and_compression_are_kept() -> None:
    config = ExecutionConfig()
    assert not config.is_auto_type_registration_disabled()
    assert config.disable_auto_type_registration().is_auto_type_registration_disabled()
    assert not config.is_use_snapshot_compression()
    assert config.set_use_snapshot_compression(True).is_use_snapshot_compression()


def test_an_option_without_effect_is_warned_of_once_with_its_reason(
    caplog: pytest.LogCaptureFixture,
) -> None:
    config = ExecutionConfig()
    with caplog.at_level(logging.WARNING):
        config.disable_object_reuse()
        assert not caplog.records
        config.enable_object_reuse().disable_object_reuse().enable_object_reuse()
    (record,) = caplog.records
    assert record.getMessage() == (
        "pipeline.object-reuse has no effect: each element is an object of its own"
    )


def test_an_option_with_effect_is_not_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    config = ExecutionConfig().set_parallelism(2).disable_auto_generated_uids()
    config.configure({"pipeline.time-characteristic": "ProcessingTime"})
    assert not caplog.records


def test_equal_configurations_have_one_hash() -> None:
    first, second = ExecutionConfig(), ExecutionConfig()
    assert first == second
    assert hash(first) == hash(second)
    first.set_parallelism(12)
    assert first != second
    assert hash(first) != hash(second)
    second.set_parallelism(12)
    assert first == second
    first.set_global_job_parameters({"a": "b"})
    assert first != second


def test_it_starts_with_the_settings() -> None:
    settings = EnvironmentSettings.load(
        {"parallelism.default": "3", "pipeline.object-reuse": "true"},
        {"QUERYABLE_STATE_PIPELINE_AUTO_WATERMARK_INTERVAL": "2 s"},
    )
    config = ExecutionConfig(settings)
    assert config.get_parallelism() == 3
    assert config.is_object_reuse_enabled()
    assert config.get_auto_watermark_interval() == 2_000
