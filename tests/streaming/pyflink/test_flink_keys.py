"""Flink's configuration keys: every spelling, keys without effect, misspelt keys."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from queryable_state.streaming import EnvironmentSettings
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("key", "value", "field", "wanted"),
    [
        ("queryable-state.proxy.ports", "9100-9109", "proxy_ports", "9100-9109"),
        ("queryable-state.server.ports", "9200", "server_ports", "9200"),
        ("queryable-state.enable", "true", "queryable_state_enable", True),
        ("parallelism.default", "4", "parallelism", 4),
        ("pipeline.max-parallelism", "64", "max_parallelism", 64),
        ("state.backend", "rocksdb", "backend", "rocksdb"),
        ("state.backend.type", "rocksdb", "backend", "rocksdb"),
        ("state.checkpoints.dir", "/c", "checkpoint_directory", "/c"),
        ("execution.checkpointing.dir", "/c", "checkpoint_directory", "/c"),
        ("state.savepoints.dir", "/s", "savepoint_directory", "/s"),
        ("execution.checkpointing.savepoint-dir", "/s", "savepoint_directory", "/s"),
        ("execution.checkpointing.num-retained", "5", "retained_checkpoints", 5),
        ("execution.checkpointing.incremental", "false", "incremental", False),
        ("execution.checkpointing.data-inline-threshold", "1kb", "memory_threshold_bytes", 1024),
        ("state.storage.fs.memory-threshold", "1kb", "memory_threshold_bytes", 1024),
        ("execution.checkpointing.storage", "jobmanager", "checkpoint_storage", "jobmanager"),
        ("execution.state-recovery.path", "/sp", "savepoint_path", "/sp"),
        ("restart-strategy.type", "none", "restart_strategy", "none"),
        ("restart-strategy.fixed-delay.attempts", "7", "restart_attempts", 7),
    ],
)
def test_each_spelling_of_a_key_sets_its_field(
    key: str, value: str, field: str, wanted: object
) -> None:
    for conf in ({key: value}, {f"spark.queryable_state.{key}": value}):
        assert getattr(EnvironmentSettings.load(conf, {}), field) == wanted
    variable = "QUERYABLE_STATE_" + key.replace(".", "_").replace("-", "_").upper()
    assert getattr(EnvironmentSettings.load({}, {variable: value}), field) == wanted


def test_options_come_from_all_places_in_their_order(tmp_path: Path) -> None:
    file = tmp_path / "settings.toml"
    file.write_text(
        '[pipeline]\nname = "of the file"\nobject-reuse = true\njars = ["a.jar", "b.jar"]\n'
        '[pipeline.global-job-parameters]\na = "1"\n'
    )
    settings = EnvironmentSettings.load(
        {"spark.queryable_state.pipeline.name": "of spark"},
        {
            "QUERYABLE_STATE_CONFIG": str(file),
            "QUERYABLE_STATE_PIPELINE_NAME": "of the environment",
        },
    )
    assert settings.flink_options == {
        "pipeline.name": "of spark",
        "pipeline.object-reuse": True,
        "pipeline.jars": ("a.jar", "b.jar"),
        "pipeline.global-job-parameters": {"a": "1"},
    }


def test_texts_of_options_are_converted_to_their_types() -> None:
    options = EnvironmentSettings.load(
        {
            "execution.buffer-timeout.interval": "1 min",
            "pipeline.operator-chaining.enabled": "false",
            "pipeline.time-characteristic": "ingestiontime",
            "python.files": "a.py,b.zip",
            "pipeline.global-job-parameters": "a:1,b:x:y",
            "pipeline.default-kryo-serializers": "class:A,serializer:B;class:C,serializer:D",
        },
        {},
    ).flink_options
    assert options == {
        "execution.buffer-timeout": 60_000,
        "pipeline.operator-chaining": False,
        "pipeline.time-characteristic": "IngestionTime",
        "python.files": ("a.py", "b.zip"),
        "pipeline.global-job-parameters": {"a": "1", "b": "x:y"},
        "pipeline.default-kryo-serializers": {"A": "B", "C": "D"},
    }


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("pipeline.object-reuse", "maybe", "true or false"),
        ("execution.buffer-timeout", "soon", "10 s, 5 min"),
        ("pipeline.time-characteristic", "NoTime", "ProcessingTime, IngestionTime, EventTime"),
        ("execution.runtime-mode", "FAST", "STREAMING, BATCH, AUTOMATIC"),
        ("pipeline.global-job-parameters", "abc", "a:1,b:2"),
        ("queryable-state.enable", "false", "always answer queries"),
        ("state.checkpoint-storage", "tape", "jobmanager, filesystem"),
    ],
)
def test_an_invalid_value_is_refused_with_the_valid_ones(key: str, value: str, text: str) -> None:
    with pytest.raises(InvalidRequestError, match=text) as caught:
        EnvironmentSettings.load({key: value}, {})
    assert key in str(caught.value)


@pytest.mark.parametrize(
    ("key", "reason"),
    [
        ("queryable-state.proxy.query-threads", "one event loop"),
        ("queryable-state.server.network-threads", "one event loop"),
        ("execution.checkpointing.unaligned.enabled", "between two batches"),
        ("execution.savepoint-restore-mode", "never owns or deletes"),
        ("state.backend.rocksdb.thread.num", "options factory"),
        ("restart-strategy.exponential-delay.initial-backoff", "fixed-delay and failure-rate"),
    ],
)
def test_a_known_key_without_effect_is_logged_with_its_reason(
    key: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert EnvironmentSettings.load({key: "1"}, {}) == EnvironmentSettings()
    (record,) = caplog.records
    assert record.getMessage().startswith(f"{key} has no effect: ")
    assert reason in record.getMessage()


def test_processes_of_flink_are_known_in_our_own_places_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without the prefix, `metrics.x` in Spark's configuration may be another library's."""
    EnvironmentSettings.load({"taskmanager.numberOfTaskSlots": "4", "metrics.x": "y"}, {})
    assert not caplog.records
    EnvironmentSettings.load({"spark.queryable_state.taskmanager.numberOfTaskSlots": "4"}, {})
    assert "Spark's configuration" in caplog.text


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("queryable-state.proxy.port", "queryable-state.proxy.ports"),
        ("execution.checkpointing.intervall", "execution.checkpointing.interval"),
        ("state.checkpoint.dir", "state.checkpoints.dir"),
        ("state.backend.rocksdb.localdirs", "state.backend.rocksdb.localdir"),
        ("restart-strategy.fixed-delay.attempt", "restart-strategy.fixed-delay.attempts"),
        ("paralelism.default", "parallelism.default"),
        ("pipeline.object-reuze", "pipeline.object-reuse"),
    ],
)
def test_a_misspelt_key_is_answered_with_the_nearest_one(key: str, meant: str) -> None:
    with pytest.raises(InvalidRequestError, match=f"did you mean '{meant}'") as caught:
        EnvironmentSettings.load({f"spark.queryable_state.{key}": "1"}, {})
    assert meant in caught.value.candidates


def test_a_misspelt_key_without_prefix_is_refused_and_another_programs_key_is_not() -> None:
    with pytest.raises(InvalidRequestError, match=r"'queryable-state\.proxy\.ports'"):
        EnvironmentSettings.load({"queryable-state.proxy.port": "1"}, {})
    with pytest.raises(InvalidRequestError, match=r"^queryable-state\.nothing \(Spark .*is not a"):
        EnvironmentSettings.load({"queryable-state.nothing": "1"}, {})
    conf = {"state.of.somebody.else": "1", "execution.engine.of.another": "2"}
    assert EnvironmentSettings.load(conf, {}) == EnvironmentSettings()


def test_a_misspelt_variable_is_refused_and_another_programs_variable_is_not() -> None:
    with pytest.raises(InvalidRequestError, match="did you mean 'QUERYABLE_STATE_PARALLELISM'"):
        EnvironmentSettings.load({}, {"QUERYABLE_STATE_PARALELISM": "2"})
    theirs = {"QUERYABLE_STATE_SERVER": "localhost:9069", "QUERYABLE_STATE_OF_ANOTHER": "x"}
    assert EnvironmentSettings.load({}, theirs) == EnvironmentSettings()
