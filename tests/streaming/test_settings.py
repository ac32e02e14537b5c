"""Settings from Spark's configuration, the environment and a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queryable_state.server.settings.environment_settings import EnvironmentSettings
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from pathlib import Path


def test_sparks_configuration_comes_before_the_environment_before_the_file(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text('[queryable_state]\nparallelism = 3\nlease_ms = 1500\nbackend = "heap"\n')
    settings = EnvironmentSettings.load(
        {"spark.queryable_state.parallelism": "5", "spark.app.name": "x"},
        {
            "QUERYABLE_STATE_CONFIG": str(file),
            "QUERYABLE_STATE_PARALLELISM": "4",
            "QUERYABLE_STATE_LEASE_MS": "1800",
            "QUERYABLE_STATE_OF_SOMEBODY_ELSE": "ignored",
        },
    )
    assert (settings.parallelism, settings.lease_ms, settings.backend) == (5, 1800, "heap")


def test_pyflinks_names_are_known_in_all_places(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(
        '[queryable_state]\n"state.backend.incremental" = false\n'
        "[queryable_state.storage_options]\nanon = true\n"
        '[queryable_state.state.checkpoints]\nnum-retained = 4\ndir = "/file"\n'
    )
    settings = EnvironmentSettings.load(
        {
            "spark.queryable_state.config": str(file),
            "spark.queryable_state.state.backend": "heap",
            "state.backend": "rocksdb",
            "state.checkpoints.dir": "/bare",
            "state.of.somebody.else": "ignored",
        },
        {
            "QUERYABLE_STATE_STATE_SAVEPOINTS_DIR": "/environment",
            "QUERYABLE_STATE_STATE_CHECKPOINTS_DIR": "/environment",
            "QUERYABLE_STATE_RESTART_STRATEGY": "none",
        },
    )
    assert settings.backend == "heap"
    assert settings.checkpoint_directory == "/bare"
    assert settings.savepoint_directory == "/environment"
    assert settings.retained_checkpoints == 4
    assert settings.restart_strategy == "none"
    assert settings.storage_options == {"anon": True}
    assert not settings.incremental


def test_times_and_sizes_may_have_units() -> None:
    settings = EnvironmentSettings.load(
        {
            "execution.checkpointing.interval": "10 s",
            "execution.checkpointing.timeout": "5min",
            "execution.checkpointing.min-pause": "700",
            "state.backend.fs.memory-threshold": "20kb",
            "spark.queryable_state.lease_ms": "2 s",
            "spark.queryable_state.value_bytes": "1 mb",
            "spark.queryable_state.storage_options": '{"endpoint_url": "http://s3"}',
        },
        {},
    )
    assert (settings.checkpoint_interval_ms, settings.checkpoint_timeout_ms) == (10_000, 300_000)
    assert (settings.min_pause_ms, settings.lease_ms) == (700, 2_000)
    assert (settings.memory_threshold_bytes, settings.value_bytes) == (20_480, 1 << 20)
    assert settings.storage_options == {"endpoint_url": "http://s3"}


def test_two_names_of_one_setting_may_not_differ() -> None:
    conf = {"spark.queryable_state.backend": "heap", "spark.queryable_state.state.backend": "heap"}
    assert EnvironmentSettings.load(conf, {}).backend == "heap"
    conf["spark.queryable_state.backend"] = "rocksdb"
    with pytest.raises(InvalidRequestError, match="same setting, but differ"):
        EnvironmentSettings.load(conf, {})


def test_the_secret_is_random_where_none_is_set_and_never_shown() -> None:
    one, two = (EnvironmentSettings().with_secret() for _ in range(2))
    assert one.secret != two.secret
    assert one.secret not in repr(one)
    assert EnvironmentSettings(secret="given").with_secret().secret == "given"


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        (
            "paralelism",
            "2",
            r"paralelism \(Spark.* is not a setting; did you mean .parallelism.",
        ),
        (
            "parallelism",
            "two",
            r"'two' \(Spark.*: it must be a whole number, 0 to 32,767",
        ),
        ("strict", "maybe", "true or false"),
        ("backend", "redis", "hashmap"),
        ("max_parallelism", "32768", "1 to 32,767"),
        ("state.backend", "redis", "heap, rocksdb"),
        ("changelog", "maybe", "auto, on, off"),
        ("execution.checkpointing.interval", "soon", r"10 s, 5 min"),
        ("state.backend.fs.memory-threshold", "2 miles", "20 kb"),
        (
            "state.checkpoints.num-retained",
            "0",
            r"num-retained is 0 \(Spark.*: it must be 1 to",
        ),
        ("storage_options", "[1]", "a JSON object"),
        ("parallelism", "129", "max_parallelism is 128: parallelism exceeds"),
        ("proxy_ports", "70000", r"spark\.queryable_state\.proxy_ports"),
        ("server_frame_ports", "any", r"spark\.queryable_state\.server_frame_ports"),
        ("task_ports", "", r"spark\.queryable_state\.task_ports"),
        ("host", "http://here", r"spark\.queryable_state\.host.*URL"),
        ("coordinator_host", "here:6123", r"coordinator_host is .here:6123.*has a port"),
        ("coordinator_host", "0.0.0.0", r"coordinator_host is .0\.0\.0\.0.*nobody"),
    ],
)
def test_a_wrong_setting_is_named(key: str, value: str, text: str) -> None:
    with pytest.raises(InvalidRequestError, match=text):
        EnvironmentSettings.load({f"spark.queryable_state.{key}": value}, {})


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match=r"missing\.toml"):
        EnvironmentSettings.load(
            {"spark.queryable_state.config": str(tmp_path / "missing.toml")}, {}
        )
