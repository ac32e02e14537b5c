"""What is wrong with a job is said clearly: before it starts, or by the query that fails."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from tests.spark.functions import (
    COUNTS,
    READINGS,
    CountPerKey,
    NamesTwice,
    OpenableOnlyInTasks,
    RaisingOn,
)

from queryable_state.streaming import (
    StreamExecutionEnvironment,
    Types,
    ValueStateDescriptor,
)
from queryable_state.streaming.functions import UserFunctionError
from queryable_state.streaming.spark.session import check_version
from queryable_state.wire.errors import (
    DescriptorMismatchError,
    InvalidRequestError,
    JobError,
    KeyTypeError,
    QueryableStateError,
    Reason,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.spark.conftest import MakeFeed, NewEnvironment

    from queryable_state.streaming import DataStream


def reading(sensor: str | None) -> dict[str, object]:
    return {"sensor": sensor, "temperature": 1.0}


@pytest.fixture
def stream(env: StreamExecutionEnvironment, feed: MakeFeed) -> DataStream:
    source = feed(f"{READINGS}, tags map<string,string>, nested struct<a:map<string,int>>")
    return env.from_dataframe(source.dataframe())


def test_a_static_dataframe(env: StreamExecutionEnvironment, spark: SparkSession) -> None:
    with pytest.raises(InvalidRequestError, match="static"):
        env.from_dataframe(spark.range(3))


def test_an_unknown_key_column_is_answered_with_the_columns(stream: DataStream) -> None:
    with pytest.raises(InvalidRequestError, match=r"'senor'.*sensor, temperature, tags") as caught:
        stream.key_by("senor")
    assert "sensor" in caught.value.candidates


@pytest.mark.parametrize("column", ["tags", "nested"])
def test_a_key_of_maps(stream: DataStream, column: str) -> None:
    with pytest.raises(KeyTypeError, match="map<"):
        stream.key_by(column)


def test_a_key_under_a_collation(env: StreamExecutionEnvironment, feed: MakeFeed) -> None:
    frame = feed(READINGS).dataframe().selectExpr("sensor collate UNICODE_CI as sensor")
    with pytest.raises(InvalidRequestError, match="UNICODE_CI"):
        env.from_dataframe(frame).key_by("sensor")


@pytest.mark.parametrize("keys", [(), (9,), (1.5,), ("a", len)])
def test_keys_that_are_neither_columns_nor_a_function_with_a_type(
    stream: DataStream, keys: tuple[Any, ...]
) -> None:
    with pytest.raises(InvalidRequestError, match="key_by"):
        stream.key_by(*keys)


def test_a_sum_of_texts(stream: DataStream) -> None:
    with pytest.raises(InvalidRequestError, match="string has no sum"):
        stream.key_by("temperature").aggregate_sum("sensor")


def test_a_descriptor_that_is_not_the_streams_type(stream: DataStream) -> None:
    descriptor = ValueStateDescriptor("t", Types.ROW_NAMED(["temperature"], [Types.INT()]))
    with pytest.raises(DescriptorMismatchError, match="double"):
        stream.key_by("sensor").as_queryable_state("t", descriptor)


@pytest.mark.parametrize(("parallelism", "max_parallelism"), [(2, 0), (2, 40_000), (5, 4)])
def test_a_parallelism_out_of_range(
    env: StreamExecutionEnvironment, parallelism: int, max_parallelism: int
) -> None:
    with pytest.raises(InvalidRequestError, match="parallelism"):
        env.set_parallelism(parallelism).set_max_parallelism(max_parallelism)


def test_an_unknown_state_backend(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidRequestError, match="heap, rocksdb"):
        env.set_state_backend("redis")


def test_an_old_spark() -> None:
    with pytest.raises(InvalidRequestError, match=r"Spark 4\.0\.1 is too old"):
        check_version("4.0.1")


def test_a_job_of_nothing(env: StreamExecutionEnvironment) -> None:
    with pytest.raises(InvalidRequestError, match="nothing to run"):
        env.execute_async("empty")


@pytest.mark.parametrize("trigger", ["realTime", "continuous"])
def test_a_job_without_micro_batches(
    env: StreamExecutionEnvironment, stream: DataStream, trigger: str
) -> None:
    stream.key_by("sensor").aggregate_max("temperature")
    with pytest.raises(InvalidRequestError, match=f"trigger {trigger}.*processingTime") as caught:
        env.execute_async("modes", trigger={trigger: "1 second"})
    assert caught.value.reason == Reason.UNSUPPORTED


def test_two_operators_of_one_uid(env: StreamExecutionEnvironment, stream: DataStream) -> None:
    for name in ("one", "two"):
        stream.key_by("sensor").aggregate_max("temperature", queryable_name=name).uid("same")
    with pytest.raises(JobError, match="'same'"):
        env.execute_async("uids")


def test_a_refused_job_leaves_nothing_to_the_next_one(
    env: StreamExecutionEnvironment, feed: MakeFeed, caplog: pytest.LogCaptureFixture
) -> None:
    for name in ("one", "two"):
        keyed = env.from_dataframe(feed(READINGS).dataframe()).key_by("sensor")
        keyed.aggregate_max("temperature", queryable_name=name).uid("same")
    assert "2 operators and 0 sinks; parallelism" in repr(env)
    with pytest.raises(JobError, match="'same'"):
        env.execute_async("refused")
    with pytest.raises(JobError, match="'same'"):
        env.execute_async("refused again, as nothing was declared since")
    assert "0 operators and 0 sinks; refused, to be executed again: 2 operators" in repr(env)
    refused = "refused: operator 'same': aggregate_max by sensor of from_dataframe("
    assert str(env).count(refused) == 2
    source = feed(READINGS)
    source.add(reading("a"))
    env.from_dataframe(source.dataframe()).key_by("sensor").aggregate_max("temperature").uid("same")
    job = env.execute_async("next")
    job.process_all_available()
    assert "'next' does not run the declarations of the job that was refused" in caplog.text
    assert "0 operators and 0 sinks; parallelism" in repr(env)
    with pytest.raises(InvalidRequestError, match="nothing to run"):
        env.execute_async("nothing is left of any of them")


def test_a_refused_job_is_executed_again_with_a_corrected_argument(
    env: StreamExecutionEnvironment, feed: MakeFeed, tmp_path: Path
) -> None:
    source = feed(READINGS)
    source.add(reading("a"))
    maxima = (
        env.from_dataframe(source.dataframe())
        .key_by("sensor")
        .aggregate_max("temperature")
        .uid("max")
    )
    seen: list[int] = []
    maxima.add_sink(lambda batch, batch_id: seen.append(batch.count()))
    place = str(tmp_path / "place")
    with pytest.raises(PySparkException, match=r"(?i)sideways"):
        env.execute_async("corrected", checkpoint_location=place, output_mode="sideways")
    with pytest.raises(PySparkException, match=r"(?i)complete"):
        env.execute_async("corrected", checkpoint_location=place, output_mode="complete")
    env.execute_async("corrected", checkpoint_location=place).process_all_available()
    assert seen == [1]


def test_a_stream_that_could_not_be_taken_is_still_executed(
    env: StreamExecutionEnvironment, stream: DataStream
) -> None:
    first = stream.key_by("sensor").process(CountPerKey("taken"), COUNTS).uid("same")
    second = first.key_by("sensor").process(CountPerKey("too"), COUNTS).uid("same")
    with pytest.raises(JobError, match="'same'"):
        second.to_dataframe()
    assert "streams taken" not in repr(env)
    second.uid("another")
    second.to_dataframe()
    assert "1 stream taken" in repr(env)


def test_one_queryable_name_for_two_operators(
    env: StreamExecutionEnvironment, stream: DataStream
) -> None:
    keyed = stream.key_by("sensor")
    keyed.process(CountPerKey("taken"), COUNTS).uid("first")
    keyed.as_queryable_state("taken").uid("second")
    text = r"'taken' is claimed twice.*'first' and by .*'second'"
    with pytest.raises(JobError, match=text) as caught:
        env.execute_async("names")
    assert caught.value.reason == Reason.DUPLICATE_NAME


def test_one_queryable_name_for_two_states_of_a_function(
    env: StreamExecutionEnvironment, stream: DataStream
) -> None:
    stream.key_by("sensor").process(NamesTwice(), Types.LONG()).uid("twice")
    with pytest.raises(JobError, match="'same'") as caught:
        env.execute_async("names")
    assert caught.value.reason == Reason.DUPLICATE_NAME


def test_a_name_only_tasks_know_is_refused_by_the_first_batch(
    env: StreamExecutionEnvironment, feed: MakeFeed
) -> None:
    source = feed(READINGS)
    keyed = env.from_dataframe(source.dataframe()).key_by("sensor")
    keyed.as_queryable_state("taken").uid("first")
    keyed.process(OpenableOnlyInTasks("taken"), COUNTS).uid("second")
    source.add(reading("a"))
    job = env.execute_async("names in tasks")
    with pytest.raises(JobError, match="taken") as caught:
        job.process_all_available()
    assert caught.value.reason == Reason.DUPLICATE_NAME


def test_a_function_that_raises_is_named_with_its_key_and_batch(
    env: StreamExecutionEnvironment, feed: MakeFeed
) -> None:
    source = feed(READINGS)
    keyed = env.from_dataframe(source.dataframe()).key_by("sensor")
    keyed.process(RaisingOn("b"), Types.LONG()).uid("raising").name("alarm")
    source.add(reading("a"))
    source.add(reading("b"))
    job = env.execute_async("raises")
    with pytest.raises(UserFunctionError, match="the sensor is broken") as caught:
        job.process_all_available()
    text = str(caught.value)
    assert "'alarm'" in text
    assert "key 'b'" in text
    assert "batch 1:" in text
    (trace,) = caught.value.__notes__
    assert 'raise ZeroDivisionError("the sensor is broken")' in trace
    # Who started the query himself finds the same in Spark's error, without our frames.
    spark_text = str(job.query.exception())
    assert text in spark_text
    assert trace in spark_text
    assert "function_run.py" not in spark_text.partition("own traceback")[0]


@pytest.mark.parametrize("ends", [1, 2])
def test_a_null_key_is_refused(env: StreamExecutionEnvironment, feed: MakeFeed, ends: int) -> None:
    """Natively and in a branch of a batch, whose errors Spark wraps once more."""
    source = feed(READINGS)
    keyed = env.from_dataframe(source.dataframe()).key_by("sensor")
    for number in range(ends):
        keyed.as_queryable_state(f"s-{number}").uid(f"s-{number}")
    source.add(reading(None))
    job = env.execute_async("null key")
    with pytest.raises(QueryableStateError, match="sensor"):
        job.process_all_available()


def test_a_stated_port_that_is_taken_fails_the_job_at_once(
    new_environment: NewEnvironment, feed: MakeFeed
) -> None:
    """In the driver for the coordinator's port, in the first task for those of servers."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        source = feed(READINGS)
        source.add(reading("a"))
        for setting in ("coordinator_ports", "proxy_ports"):
            env = new_environment(**{setting: port})
            keyed = env.from_dataframe(source.dataframe()).key_by("sensor")
            keyed.as_queryable_state("last").uid("last")
            with pytest.raises(
                InvalidRequestError,
                match=rf"spark\.queryable_state\.{setting} is '{port}', and no port of it is free",
            ):
                env.execute_async(f"taken {setting}").process_all_available()
