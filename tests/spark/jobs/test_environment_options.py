"""Options of an environment: PyFlink's getters and setters, and one `configure` for all."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

import pytest
from tests.spark.functions import COUNTS, READINGS, CountPerKey

from queryable_state.streaming import (
    CheckpointConfig,
    CheckpointingMode,
    Configuration,
    EmbeddedRocksDBStateBackend,
    ExecutionConfig,
    HashMapStateBackend,
    JobStatus,
    MemoryStateBackend,
    RestartStrategies,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
    TimeCharacteristic,
)
from queryable_state.wire.errors import InvalidRequestError, JobError, Reason

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.spark.conftest import MakeFeed, NewEnvironment


def configured(**values: str) -> Configuration:
    configuration = Configuration()
    for key, value in values.items():
        configuration.set_string(key, value)
    return configuration


def test_the_parallelism_is_that_of_the_execution_config(env: StreamExecutionEnvironment) -> None:
    assert isinstance(env.get_config(), ExecutionConfig)
    assert env.get_parallelism() == 2  # spark.sql.shuffle.partitions
    assert env.set_parallelism(10).get_parallelism() == 10
    assert env.get_config().get_parallelism() == 10
    env.get_config().set_parallelism(6)
    assert (env.get_parallelism(), env.settings.parallelism) == (6, 6)
    assert env.set_max_parallelism(12).get_max_parallelism() == 12
    assert env.settings.max_parallelism == 12
    env.set_default_local_parallelism(8)
    assert env.get_default_local_parallelism() == 8


def test_the_default_parallelism_is_that_of_the_cores_unless_partitions_are_set(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    key = "spark.sql.shuffle.partitions"
    given = str(spark.conf.get(key))
    try:
        spark.conf.set(key, "5")
        env = StreamExecutionEnvironment.get_execution_environment(spark)
        assert env.get_parallelism() == 5
        assert env.set_max_parallelism(4).get_parallelism() == 4
        spark.conf.unset(key)
        with caplog.at_level(logging.INFO, "queryable_state.streaming"):
            assert [env.get_parallelism() for _ in range(2)] == [2, 2]
        assert env.set_max_parallelism(1).get_parallelism() == 1
        assert env.set_max_parallelism(128).set_parallelism(3).get_parallelism() == 3
    finally:
        spark.conf.set(key, given)
    (line,) = [each for each in caplog.messages if each.startswith("parallelism 2")]
    assert line == (
        "parallelism 2: cores of the application; set spark.sql.shuffle.partitions or "
        "env.set_parallelism(...) to change it"
    )


def test_execution_options_are_kept_and_returned(env: StreamExecutionEnvironment) -> None:
    assert env.get_buffer_timeout() == 100
    assert env.set_buffer_timeout(12_000).get_buffer_timeout() == 12_000
    assert env.is_chaining_enabled()
    assert env.is_chaining_of_operators_with_different_max_parallelism_enabled()
    assert not env.disable_operator_chaining().is_chaining_enabled()
    assert env.get_stream_time_characteristic() is TimeCharacteristic.EventTime
    env.set_stream_time_characteristic(TimeCharacteristic.ProcessingTime)
    assert env.get_stream_time_characteristic() is TimeCharacteristic.ProcessingTime
    env.add_default_kryo_serializer("a.Type", "a.Serializer")
    env.register_type_with_kryo_serializer("b.Type", "b.Serializer")
    env.register_type("c.Type")
    config = env.get_config()
    assert config.get_default_kryo_serializer_classes() == {"a.Type": "a.Serializer"}
    assert config.get_registered_types_with_kryo_serializer_classes() == {"b.Type": "b.Serializer"}
    assert config.get_registered_pojo_types() == ["c.Type"]


def test_checkpointing_is_that_of_the_checkpoint_config(env: StreamExecutionEnvironment) -> None:
    assert isinstance(env.get_checkpoint_config(), CheckpointConfig)
    assert env.get_checkpoint_interval() == -1
    assert env.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
    env.enable_checkpointing(30_000, CheckpointingMode.AT_LEAST_ONCE)
    assert env.get_checkpoint_interval() == 30_000
    assert env.get_checkpointing_mode() is CheckpointingMode.AT_LEAST_ONCE
    env.enable_checkpointing(20_000)
    assert env.get_checkpointing_consistency_mode() is CheckpointingMode.AT_LEAST_ONCE
    assert not env.is_unaligned_checkpoints_enabled()
    assert not env.is_force_unaligned_checkpoints()


def test_the_state_backend_is_the_one_that_was_set(env: StreamExecutionEnvironment) -> None:
    assert env.get_state_backend() is None
    backend = MemoryStateBackend()
    assert env.set_state_backend(backend).get_state_backend() is backend
    assert isinstance(env.set_state_backend("hashmap").get_state_backend(), HashMapStateBackend)
    with pytest.raises(InvalidRequestError, match="hashmap"):
        env.set_state_backend("tape")


def test_changelogs_savepoints_and_restarts_are_returned(
    env: StreamExecutionEnvironment, caplog: pytest.LogCaptureFixture
) -> None:
    assert env.is_changelog_state_backend_enabled() is None
    assert env.enable_changelog_state_backend(True).is_changelog_state_backend_enabled() is True
    assert not caplog.records
    with caplog.at_level(logging.WARNING):
        env.enable_changelog_state_backend(False)
    assert "each batch writes a changelog" in caplog.text
    assert env.is_changelog_state_backend_enabled() is False
    assert env.get_default_savepoint_directory() is None
    assert env.set_default_savepoint_directory("/s").get_default_savepoint_directory() == "/s"
    env.set_restart_strategy(RestartStrategies.no_restart())
    assert env.get_restart_strategy() == RestartStrategies.no_restart()


def test_a_configuration_sets_all_its_options_and_leaves_the_others(
    env: StreamExecutionEnvironment,
) -> None:
    env.set_parallelism(7).enable_checkpointing(50_000)
    checkpoints, config = env.get_checkpoint_config(), env.get_config()
    env.configure(
        configured(
            **{
                "pipeline.operator-chaining": "false",
                "pipeline.time-characteristic": "IngestionTime",
                "pipeline.max-parallelism": "256",
                "execution.buffer-timeout": "1 min",
                "execution.checkpointing.timeout": "12000",
                "restart-strategy": "fixed-delay",
                "restart-strategy.fixed-delay.attempts": "9",
                "state.backend": "jobmanager",
                "state.savepoints.dir": "/s",
            }
        )
    )
    assert not env.is_chaining_enabled()
    assert env.get_stream_time_characteristic() is TimeCharacteristic.IngestionTime
    assert (env.get_parallelism(), env.get_max_parallelism()) == (7, 256)
    assert env.get_buffer_timeout() == 60_000
    assert checkpoints.get_checkpoint_timeout() == 12_000
    assert checkpoints.get_checkpoint_interval() == 50_000
    assert env.get_config() is config
    assert env.get_restart_strategy() == RestartStrategies.fixed_delay_restart(9, 1_000)
    assert isinstance(env.get_state_backend(), MemoryStateBackend)
    assert env.get_default_savepoint_directory() == "/s"


def test_a_configuration_is_the_first_argument_as_in_pyflink(spark: SparkSession) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(
        configured(**{"state.backend.type": "rocksdb", "parallelism.default": "3"})
    )
    assert isinstance(env.get_state_backend(), EmbeddedRocksDBStateBackend)
    assert env.get_parallelism() == 3


def test_a_misspelt_key_changes_nothing(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidRequestError, match=r"did you mean 'state\.savepoints\.dir'"):
        env.configure(configured(**{"parallelism.default": "5", "state.savepoint.dir": "/s"}))
    assert env.get_parallelism() == 2


def test_requirements_and_class_paths_are_refused(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidRequestError, match=r"spark\.archives") as caught:
        env.set_python_requirements("requirements.txt")
    assert caught.value.reason == Reason.UNSUPPORTED
    with pytest.raises(InvalidRequestError, match=r"spark\.executor\.extraClassPath"):
        env.add_classpaths("file:///a.jar")
    with pytest.raises(InvalidRequestError, match="does not exist on the driver"):
        env.add_jars("/no/such.jar")


def test_without_generated_uids_each_operator_needs_one(
    env: StreamExecutionEnvironment, feed: MakeFeed
) -> None:
    env.get_config().disable_auto_generated_uids()
    stream = env.from_dataframe(feed(READINGS).dataframe())
    stream.key_by("sensor").as_queryable_state("last")
    with pytest.raises(InvalidRequestError, match=r"queryable-state-0.*call \.uid\(\) on each"):
        env.execute_async("unnamed")


def test_a_plan_describes_the_job_before_it_starts(
    env: StreamExecutionEnvironment, feed: MakeFeed
) -> None:
    with pytest.raises(InvalidRequestError, match="nothing to run"):
        env.get_execution_plan()
    stream = env.from_dataframe(feed(READINGS).dataframe())
    stream.key_by("sensor").process(CountPerKey(), COUNTS).uid("counts").print()
    nodes = json.loads(env.get_execution_plan())["nodes"]
    assert [node["pact"] for node in nodes] == ["Data Source", "Operator", "Data Sink"]
    assert nodes[1]["queryable_states"] == ["count"]
    assert nodes[1]["predecessors"][0]["ship_strategy"] == "HASH"
    assert env.draw_execution_plan().startswith("flowchart LR\n")
    assert "1 operator and 1 sink; parallelism of Spark, max parallelism 128" in repr(env)


def test_a_batch_job_ends_with_a_result_under_the_configured_name(
    env: StreamExecutionEnvironment, feed: MakeFeed, capsys: pytest.CaptureFixture[str]
) -> None:
    env.configure(configured(**{"pipeline.name": "named by a key"}))
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    source = feed(READINGS)
    source.add({"sensor": "a", "temperature": 1.0})
    env.from_dataframe(source.dataframe()).print()
    result = env.execute()
    assert len(result.get_job_id()) == 32
    assert result.get_net_runtime() > 0
    assert result.get_all_accumulator_results() == {}
    assert capsys.readouterr().out == "Row(sensor='a', temperature=1.0)\n"


def test_a_cancelled_job_is_canceled_and_has_no_result(
    env: StreamExecutionEnvironment, feed: MakeFeed
) -> None:
    env.from_dataframe(feed(READINGS).dataframe()).key_by("sensor").as_queryable_state("last").uid(
        "last"
    )
    job = env.execute_async("cancelled")
    assert job.get_job_status().result() is JobStatus.RUNNING
    assert job.get_accumulators().result() == {}
    assert f"'cancelled' RUNNING, id {job.get_job_id()}" in repr(job)
    future = job.get_job_execution_result()
    assert not future.done()
    assert job.cancel().done()
    assert job.status() is JobStatus.CANCELED
    assert isinstance(future.exception(timeout=30), JobError)
    with pytest.raises(InvalidRequestError, match="takes advance_to_end_of_event_time first"):
        job.stop_with_savepoint("/savepoints")  # type: ignore[arg-type]
    with pytest.raises(InvalidRequestError, match="pass False"):
        job.stop_with_savepoint(True)


def test_settings_of_running_servers_do_not_change(
    new_environment: NewEnvironment, feed: MakeFeed, tmp_path: Path
) -> None:
    env = new_environment()
    env.configure(configured(**{"queryable-state.proxy.ports": "0"}))
    env.from_dataframe(feed(READINGS).dataframe()).key_by("sensor").as_queryable_state("last").uid(
        "last"
    )
    job = env.execute_async("fixed")
    env.configure(configured(**{"queryable-state.proxy.ports": "0", "parallelism.default": "3"}))
    with pytest.raises(InvalidRequestError, match=r"queryable_state\.proxy_ports cannot change"):
        env.configure(configured(**{"queryable-state.proxy.ports": "9099"}))
    job.cancel()
