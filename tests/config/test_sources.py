"""One tree of settings: file, environment, Spark's configuration and flags, and their origins."""

from __future__ import annotations

import argparse
import logging
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryable_state.server.cli.process_settings import add_settings, process_settings
from queryable_state.server.config.parser import value_of
from queryable_state.server.config.setting import Origin, setting
from queryable_state.server.settings.checkpoint_server_settings import CheckpointServerSettings
from queryable_state.server.settings.environment_settings import EnvironmentSettings
from queryable_state.server.settings.proxy_settings import ProxySettings
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from pathlib import Path

SHARED = """\
# One file for all processes.
[queryable_state]
lease_ms = "3 s"
lame_duck_s = 2
state.checkpoints.num-retained = 4
frobnicate.enabled = 1

[queryable_state.storage_options]
anon = true

[queryable_state.proxy]
coordinator = ["driver", "standby:7"]
lame_duck_s = 7
"""


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A file with settings of all processes."""
    file = tmp_path / "settings.toml"
    file.write_text(SHARED.replace("frobnicate.enabled = 1\n", ""))
    return file


def proxy(*flags: str, **environment: str) -> ProxySettings:
    """The settings of a proxy command."""
    parser = argparse.ArgumentParser()
    add_settings(parser, ProxySettings)
    variables = {f"QUERYABLE_STATE_{name.upper()}": value for name, value in environment.items()}
    return process_settings(ProxySettings, "proxy", parser.parse_args(flags), variables)


def application(
    file: Path | None = None, conf: dict[str, str] | None = None, **environment: str
) -> EnvironmentSettings:
    """The settings of an application."""
    variables = {f"QUERYABLE_STATE_{name.upper()}": value for name, value in environment.items()}
    named = {"spark.queryable_state.config": str(file)} if file else {}
    return EnvironmentSettings.load(named | (conf or {}), variables)


def test_flags_come_before_variables_before_the_file(shared: Path) -> None:
    assert proxy("--config", str(shared)).lame_duck_s == 7
    assert proxy("--config", str(shared), lame_duck_s="8 s").lame_duck_s == 8
    assert proxy("--config", str(shared), "--lame-duck", "9", lame_duck_s="8").lame_duck_s == 9
    assert proxy(config=str(shared)).coordinators == ("driver", "standby:7")


def test_one_file_serves_all_processes(shared: Path) -> None:
    """Also Flink's keys; the table of a process counts for that process alone."""
    settings = application(shared)
    assert (settings.lease_ms, settings.lame_duck_s) == (3_000, 2)
    assert settings.retained_checkpoints == 4
    assert settings.storage_options == {"anon": True}
    of_proxy = proxy("--config", str(shared))
    assert of_proxy.storage_options == {"anon": True}


def test_each_value_knows_file_and_line_variable_key_or_flag(shared: Path) -> None:
    settings = application(shared, {"spark.queryable_state.value_bytes": "1 mb"}, log_level="debug")
    assert settings.origins == {
        "lease_ms": Origin(f"file {shared}, line 3", "lease_ms"),
        "lame_duck_s": Origin(f"file {shared}, line 4", "lame_duck_s"),
        "retained_checkpoints": Origin(f"file {shared}, line 5", "state.checkpoints.num-retained"),
        "storage_options": Origin(f"file {shared}, line 7", "storage_options"),
        "log_level": Origin("environment", "QUERYABLE_STATE_LOG_LEVEL"),
        "value_bytes": Origin("Spark configuration", "spark.queryable_state.value_bytes"),
    }
    of_proxy = proxy("--config", str(shared), "--port", "0", "--batch-keys", "9")
    assert of_proxy.origins["lame_duck_s"] == Origin(f"file {shared}, line 12", "proxy.lame_duck_s")
    assert of_proxy.origins["ports"] == Origin("flag", "--proxy-ports")
    assert of_proxy.limits.batch_keys == 9
    assert of_proxy.limits.origins["batch_keys"] == Origin("flag", "--batch-keys")


def test_a_refusal_names_the_place_of_the_value(shared: Path) -> None:
    shared.write_text("[queryable_state]\n\nlease_ms = 0\n")
    with pytest.raises(InvalidRequestError, match=r"lease_ms is 0 \(file .*line 3\): it must be"):
        application(shared)
    with pytest.raises(InvalidRequestError, match=r"--batch-keys is 0 \(flag\): it must be 1 to"):
        proxy("--batch-keys", "0")
    with pytest.raises(InvalidRequestError, match=r"QUERYABLE_STATE_TASK_TIMEOUT_S is -1.0 \(env"):
        application(task_timeout_s="-1")
    with pytest.raises(InvalidRequestError, match=r"LEASE_MARGIN_MS is 9000 \(environment\) and "):
        application(lease_margin_ms="9 s")


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "1e400", "true", "", "1 furlong", "0x10"])
def test_a_text_that_is_no_number_is_refused(text: str) -> None:
    for name in ("task_timeout_s", "lease_ms", "value_bytes", "batch_keys"):
        with pytest.raises(InvalidRequestError, match="it must be"):
            EnvironmentSettings.load({f"spark.queryable_state.{name}": text}, {})


def test_true_in_a_file_is_no_number(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("retained_checkpoints = true\n")
    with pytest.raises(InvalidRequestError, match=r"line 1.*a whole number"):
        application(file)


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("[queryable_state]\nleese_ms = 1\n", "did you mean 'lease_ms'"),
        ("spark.queryable_state.lease_ms = 1\n", "did you mean 'lease_ms'"),
        ("spark.queryable_sate.leese_ms = 1\n", "did you mean 'lease_ms'"),
        ("[queryable-state]\nlease_ms = 1\n", r"did you mean \[queryable_state\]"),
        ("[queryable_sate]\nlease_ms = 1\n", r"did you mean \[queryable_state\]"),
        ("[queryable_state.proxi]\nhost = 'x'\n", "proxi.host .* is not a setting"),
    ],
)
def test_a_misspelt_name_in_a_file_is_refused(tmp_path: Path, text: str, meant: str) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(text)
    with pytest.raises(InvalidRequestError, match=meant):
        application(file)


def test_a_file_names_no_other_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text("config = 'other.toml'\nlease_ms = 3000\n")
    assert application(file).lease_ms == 3_000
    with pytest.raises(InvalidRequestError, match=r"config .*line 1\) is not a setting"):
        proxy("--config", str(file))


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("spark.queryablestate.lease_ms", "spark.queryable_state.lease_ms"),
        ("spark.queryable-state.x", "spark.queryable_state.x"),
        ("spark.queryable_sate.lease_ms", "spark.queryable_state.lease_ms"),
        ("spark.queryableState.lease_ms", "spark.queryable_state.lease_ms"),
        ("queryable_state.lease_ms", "spark.queryable_state.lease_ms"),
        ("spark.queryable_state_lease_ms", "spark.queryable_state.lease_ms"),
    ],
)
def test_a_misspelt_prefix_of_a_key_is_refused(key: str, meant: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"^{key} .* did you mean '{meant}'"):
        application(conf={key: "1"})


@pytest.mark.parametrize(
    "key",
    [
        "spark.sql.streaming.stateStore.providerClass",
        "spark.state.lease_ms",
        "spark.query.lease_ms",
        "spark.executor.memory",
        "spark.kubernetes.driver.label.queryable-state",
        "state.of.another",
    ],
)
def test_keys_of_other_programs_are_left_alone(key: str) -> None:
    assert application(conf={key: "1"}) == EnvironmentSettings()


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("QUERYABLE_STAT_LEASE_MS", "QUERYABLE_STATE_LEASE_MS"),
        ("QUERYABLESTATE_LEASE_MS", "QUERYABLE_STATE_LEASE_MS"),
        ("QUERYABLE_SATE_HOST", "QUERYABLE_STATE_HOST"),
        ("queryable_state_lease_ms", "QUERYABLE_STATE_LEASE_MS"),
        ("QUERYABLE_STATE_LEESE_MS", "QUERYABLE_STATE_LEASE_MS"),
        ("QUERYABLE_STATE_COORDINATORS", "QUERYABLE_STATE_COORDINATOR"),
    ],
)
def test_a_misspelt_variable_is_refused(variable: str, meant: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"did you mean '{meant}'"):
        EnvironmentSettings.load({}, {variable: "1"})


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("HOST", "x"),
        ("QUERY_HOST", "x"),
        ("STATE_SECRET", "x"),
        ("QUERYABLE_STATE_SERVER", "localhost"),
        ("QUERYABLE_STATE_TOKEN", "t"),
        ("QUERYABLE_STATE_ADVERTISED_HOST", "here"),
        ("QUERYABLE_STATE_COORDINATOR", "driver"),
        # A Kubernetes service `queryable-state-proxy` puts these into all containers.
        ("QUERYABLE_STATE_PROXY_PORT", "tcp://10.0.0.1:9069"),
        ("QUERYABLE_STATE_PROXY_PORT_9069_TCP", "tcp://10.0.0.1:9069"),
        ("QUERYABLE_STATE_PROXY_PORT_9069_TCP_ADDR", "10.0.0.1"),
        ("QUERYABLE_STATE_PROXY_SERVICE_HOST", "10.0.0.1"),
        ("QUERYABLE_STATE_PROXY_SERVICE_PORT_GRPC", "9069"),
    ],
)
def test_variables_of_others_are_left_alone(
    variable: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert EnvironmentSettings.load({}, {variable: value}) == EnvironmentSettings()
    assert not caplog.records


def test_an_unknown_variable_with_our_prefix_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        EnvironmentSettings.load({}, {"QUERYABLE_STATE_OF_ANOTHER": "x"})
    assert "QUERYABLE_STATE_OF_ANOTHER is not a setting" in caplog.text


def test_a_required_setting_says_where_to_set_it() -> None:
    parser = argparse.ArgumentParser()
    add_settings(parser, CheckpointServerSettings)
    with pytest.raises(InvalidRequestError, match=r"--checkpoint, set QUERYABLE_STATE_CHECKPOINT"):
        process_settings(CheckpointServerSettings, "serve", parser.parse_args([]), {})


_UNITS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "": 1}


@given(
    number=st.integers(-(10**9), 10**9), unit=st.sampled_from(sorted(_UNITS)), space=st.booleans()
)
def test_a_time_with_a_unit_is_that_many_milliseconds(number: int, unit: str, space: bool) -> None:
    field: Any = setting(0)
    field.name, field.type = "lease_ms", "int"
    assert value_of(field, f"{number}{' ' * space}{unit}") == number * _UNITS[unit]


@given(text=st.text(max_size=12))
def test_any_text_is_a_whole_number_or_refused(text: str) -> None:
    field: Any = setting(0)
    field.name, field.type = "value_bytes", "int"
    try:
        value = value_of(field, text)
    except ValueError:
        return
    assert isinstance(value, int)
