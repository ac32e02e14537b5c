"""Operator state of Spark jobs: exactly once, and split when a job goes on with more subtasks."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import TaskContext, cloudpickle
from tests.spark.functions import READINGS
from tests.spark.restarts.test_durable_jobs import client_of

from queryable_state.client import Consistency
from queryable_state.streaming import (
    CheckpointedFunction,
    CheckpointListener,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Types,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.conftest import MakeFeed, NewEnvironment
    from tests.spark.feed import Feed

    from queryable_state.streaming import (
        FunctionInitializationContext,
        FunctionSnapshotContext,
        JobClient,
        StreamExecutionEnvironment,
    )

pytestmark = pytest.mark.slow

# Executors need not have the tests on their path.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

LISTS = Types.ROW_NAMED(["sensor", "completed"], [Types.STRING(), Types.LONG()])


class KeepSensors(KeyedProcessFunction, CheckpointedFunction, CheckpointListener):
    """Keeps the sensors of its elements in a list; emits the newest completed checkpoint."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        store = context.get_operator_state_store()
        sensors = ListStateDescriptor("sensors", Types.STRING())
        sensors.set_queryable("sensors")
        self.sensors = store.get_list_state(sensors)
        batches = MapStateDescriptor("batches", Types.LONG(), Types.BOOLEAN())
        batches.set_queryable("batches")
        self.batches = store.get_broadcast_state(batches)
        self.completed = -1

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.sensors.add(value.sensor)
        yield value.sensor, self.completed

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.batches.put(context.get_checkpoint_id(), context.get_checkpoint_timestamp() > 0)
        task = TaskContext.get()
        if task is not None and task.attemptNumber() == 0:
            raise RuntimeError("the first attempt always fails")

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self.completed = checkpoint_id


def readings(*sensors: str) -> list[dict[str, object]]:
    return [{"sensor": sensor, "temperature": 1.0} for sensor in sensors]


def started(
    env: StreamExecutionEnvironment, source: Feed, outputs: Path, name: str = "sensors", **more: Any
) -> JobClient:
    keyed = env.from_dataframe(source.dataframe()).key_by("sensor")
    stream = keyed.process(KeepSensors(), LISTS).uid("keep")
    folder = str(outputs)
    stream.add_sink(lambda frame, batch: frame.write.mode("append").json(folder))
    job = env.execute_async(name, **more)
    job.process_all_available()
    return job


def emitted(outputs: Path) -> dict[str, int]:
    """The completed checkpoint that came with each sensor; every sensor came once."""
    lines = [line for file in outputs.glob("*.json") for line in file.read_text().splitlines()]
    rows = [json.loads(line) for line in lines]
    found = {row["sensor"]: row["completed"] for row in rows}
    assert len(found) == len(rows)
    return found


def by_subtask(job: JobClient, name: str, batch: int) -> list[Any]:
    with client_of(job) as client:
        read = Consistency.at_least(batch)
        found = client.get_operator_state(job.job_id, name, consistency=read, timeout_s=20)
        return [each.value for each in found]


def test_lists_are_split_when_a_job_goes_on_at_another_parallelism(
    new_environment: NewEnvironment, feed: MakeFeed, tmp_path: Path
) -> None:
    """Of a job each of whose first attempts fails after its snapshot; then with servers gone."""
    source, outputs = feed(READINGS), tmp_path / "outputs"
    env = new_environment(checkpoint_directory=str(tmp_path / "state"), backend="heap")
    sensors = [f"sensor_{number}" for number in range(10)]
    source.add(*readings(*sensors[:6]))
    source.add(*readings(*sensors[6:]))
    job = started(env.set_parallelism(2), source, outputs)
    before = by_subtask(job, "sensors", 1)
    assert sorted(before[0] + before[1]) == sorted(sensors)
    assert by_subtask(job, "batches", 1) == [{0: True, 1: True}]
    job.cancel()
    source.add(*readings("late"))
    env = new_environment(checkpoint_directory=str(tmp_path / "state"), backend="heap")
    job = started(env.set_parallelism(3), source, outputs)
    split = by_subtask(job, "sensors", 2)
    dealt = before[0] + before[1]
    for index, elements in enumerate(split):
        assert [each for each in elements if each != "late"] == dealt[index::3]
    assert sorted(element for elements in split for element in elements) == sorted(
        [*sensors, "late"]
    )
    expected = {sensor: -1 if position < 6 else 0 for position, sensor in enumerate(sensors)}
    assert emitted(outputs) == {**expected, "late": 1}
    with client_of(job) as client:
        for subtask in range(3):
            state = client.get_operator_state(job.job_id, "batches", subtask)
            assert state.get() == {0: True, 1: True, 2: True}
        entry = client.get_broadcast_entry(job.job_id, "batches", 2)
        assert entry.value() is True


def test_a_savepoint_carries_operator_state_to_the_other_backend(
    new_environment: NewEnvironment, feed: MakeFeed, tmp_path: Path
) -> None:
    source = feed(READINGS)
    source.add(*readings("a", "b", "c", "d"))
    env = new_environment(checkpoint_directory=str(tmp_path / "state"))
    env.set_parallelism(2).set_state_backend("rocksdb")
    job = started(env, source, tmp_path / "outputs", "first")
    uri = job.trigger_savepoint(str(tmp_path / "savepoints")).result()
    job.cancel()
    source.add(*readings("e"))
    env.set_parallelism(3).set_state_backend("heap")
    again = started(env, source, tmp_path / "outputs", "second", savepoint=uri)
    found = by_subtask(again, "sensors", 1)
    assert len(found) == 3
    assert sorted(element for elements in found for element in elements) == list("abcde")
