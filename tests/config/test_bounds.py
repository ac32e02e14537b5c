"""Bounds of all settings of all processes: declared at the fields, checked for every object."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest

from queryable_state.server.config.limits import Limits
from queryable_state.server.config.setting import Origin, SettingsGroup, accepted, type_of
from queryable_state.server.coordinator.settings import CoordinatorSettings
from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings
from queryable_state.server.settings.environment_settings import EnvironmentSettings
from queryable_state.server.settings.proxy_settings import ProxySettings
from queryable_state.server.settings.shared_settings import LogSettings
from queryable_state.server.state_server.settings import StateServerSettings
from queryable_state.server.storage.rocksdb.settings import RocksDBSettings
from queryable_state.streaming.runtime.states.settings import RuntimeSettings
from queryable_state.wire.errors import InvalidRequestError

CLASSES: dict[type[SettingsGroup], dict[str, Any]] = {
    EnvironmentSettings: {},
    CoordinatorSettings: {},
    Limits: {},
    LogSettings: {},
    RocksDBSettings: {},
    RuntimeSettings: {},
    ProxySettings: {},
    CheckpointServerSettings: {"checkpoint": "/c"},
    StateServerSettings: {
        "coordinator_address": "host:1",
        "secret": "s",
        "executor_id": "1",
        "directory": "/d",
    },
}
FIELDS = [
    pytest.param(settings, field, id=f"{settings.__name__}.{field.name}")
    for settings in CLASSES
    for field in dataclasses.fields(settings)
    if not accepted(field).derived
]
NUMBERS = [
    pytest.param(settings, field, id=f"{settings.__name__}.{field.name}")
    for settings in CLASSES
    for field in dataclasses.fields(settings)
    if type_of(field) in (int, float)
]


def refusal(settings: type[SettingsGroup], name: str, value: object) -> str:
    with pytest.raises(InvalidRequestError) as caught:
        settings(**{**CLASSES[settings], name: value})
    return caught.value.message


def test_no_settings_class_is_missing_here() -> None:
    def all_below(base: type) -> set[type]:
        below: set[type] = set(base.__subclasses__())
        return below.union(*map(all_below, below))

    ours = {each for each in all_below(SettingsGroup) if not each.__module__.startswith("tests")}
    covered = {base for each in CLASSES for base in each.__mro__}
    assert ours <= covered


@pytest.mark.parametrize("settings", CLASSES)
def test_the_defaults_are_accepted(settings: type[SettingsGroup]) -> None:
    settings(**CLASSES[settings])


@pytest.mark.parametrize(("settings", "field"), NUMBERS)
def test_every_number_has_bounds_and_they_are_checked(
    settings: type[SettingsGroup], field: dataclasses.Field[Any]
) -> None:
    rule = accepted(field)
    assert rule.least is not None, "declare the field with setting(..., least=, most=)"
    assert rule.most is not None, "declare the field with setting(..., least=, most=)"
    below: set[float] = {rule.least - 1} - set(rule.special)
    for value in (*below, rule.most + 1, min((rule.least, *rule.special)) - 1):
        text = refusal(settings, field.name, value)
        assert f"{field.name} is {value!r}: it must be" in text
    for value in rule.special:
        settings(**{**CLASSES[settings], field.name: type_of(field)(value)})


@pytest.mark.parametrize(("settings", "field"), NUMBERS)
def test_a_number_is_neither_a_bool_nor_a_text_nor_infinite(
    settings: type[SettingsGroup], field: dataclasses.Field[Any]
) -> None:
    for value in (True, False, "5", None, math.nan, math.inf, -math.inf):
        text = refusal(settings, field.name, value)
        assert f"{field.name} is {value!r}: it must be a" in text
    if type_of(field) is int:
        assert "a whole number" in refusal(settings, field.name, 1000.0)


@pytest.mark.parametrize(("settings", "field"), FIELDS)
def test_a_field_has_its_type(settings: type[SettingsGroup], field: dataclasses.Field[Any]) -> None:
    refusal(settings, field.name, object())


def test_a_secret_is_not_in_an_error() -> None:
    assert "hunter2" not in refusal(EnvironmentSettings, "secret", ["hunter2"])
    assert "hunter2" not in refusal(EnvironmentSettings, "storage_options", ["hunter2"])


def test_an_error_names_the_place_a_value_came_from() -> None:
    origins = {"lease_ms": Origin("environment", "QUERYABLE_STATE_LEASE_MS")}
    with pytest.raises(
        InvalidRequestError,
        match=r"^QUERYABLE_STATE_LEASE_MS is 0 \(environment\): it must be 300 ms to 1 h$",
    ):
        EnvironmentSettings(lease_ms=0, origins=origins)


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"lease_ms": 1000, "lease_margin_ms": 1001}, "margin must not be longer than the lease"),
        ({"value_bytes": 17 << 20}, "a value must fit in an answer"),
        ({"value_bytes": 1 << 20, "message_bytes": 1 << 20}, "must fit in a message"),
        ({"parallelism": 129}, "parallelism exceeds max_parallelism"),
        ({"task_timeout_s": 6.0}, "a task must wait longer than lease and margin"),
    ],
)
def test_values_that_do_not_fit_together_are_refused(values: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidRequestError, match=text) as caught:
        EnvironmentSettings(**values)
    for name in values:
        assert f"spark.queryable_state.{name} is " in caught.value.message


def test_a_choice_is_found_in_any_spelling() -> None:
    settings = EnvironmentSettings(restart_strategy="FIXED_DELAY", log_level="info")
    assert (settings.restart_strategy, settings.log_level) == ("fixed-delay", "INFO")
