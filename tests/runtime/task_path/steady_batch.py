"""Program of a Spark Python worker without Spark: runs a stage function batch after batch.

It is run below a process named `java`, as workers are, and prints the path of its last batch.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext, cloudpickle
from tests.traces import recorded

from queryable_state.server.serving.listen_settings import ANY_PORTS
from queryable_state.server.state_server.launch import ensure_server
from queryable_state.server.state_server.settings import StateServerSettings
from queryable_state.server.testing import in_process_coordinator
from queryable_state.streaming.descriptors import ValueStateDescriptor
from queryable_state.streaming.functions import KeyedProcessFunction
from queryable_state.streaming.runtime.stage import StageSpec
from queryable_state.streaming.spark.worker.executor import current_executor
from queryable_state.streaming.spark.worker.task import StageFunction
from queryable_state.streaming.testing import KeyedOperatorHarness

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.traces import CallPath

    from queryable_state.server.testing import InProcessCoordinator
    from queryable_state.streaming.functions import Context, RuntimeContext

_BATCHES = 4
_KEYS = 3


class Counting(KeyedProcessFunction):
    """A plain function: one value state, one output for each element."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.count = runtime_context.get_state(ValueStateDescriptor("count", "bigint"))

    def process_element(self, value: Any, ctx: Context) -> Iterator[tuple[str, int]]:
        count = (self.count.value() or 0) + value.number
        self.count.update(count)
        yield value.key, count


def _begin_task(query_id: bytes, run_id: bytes, batch_id: int) -> None:
    """Sets the context of a task, as the worker process of Spark does."""
    context: Any = TaskContext._getOrCreate()
    context._partitionId = 0
    context._taskAttemptId = batch_id
    context._localProperties = {
        "sql.streaming.queryId": query_id.hex(),
        "streaming.sql.batchId": str(batch_id),
        "spark.jobGroup.id": run_id.hex(),
    }


def path_of_steady_batch() -> CallPath:
    """Runs batches of a plain function; returns the path of the last one."""
    with (
        tempfile.TemporaryDirectory() as folder,
        in_process_coordinator() as coordinator,
    ):
        template = StateServerSettings(
            coordinator_address=coordinator.address,
            secret=coordinator.secret,
            executor_id="",
            directory=folder,
            ports=ANY_PORTS,
            lame_duck_s=0.0,
        )
        try:
            return _last_batch(coordinator, template)
        finally:
            executor = current_executor("application")
            addresses = ensure_server(
                executor.directory(template.directory), partial(executor.settings, template)
            )
            subprocess.run(["kill", str(addresses.pid)], check=True)


def _last_batch(coordinator: InProcessCoordinator, template: StateServerSettings) -> CallPath:
    harness = KeyedOperatorHarness(
        Counting(),
        "key STRING, number BIGINT",
        key_by="key",
        output_type="key STRING, count BIGINT",
        parallelism=1,
    )
    (batches,) = harness.partitions([(f"k{number}", 1) for number in range(_KEYS)])
    query_id, run_id = coordinator.engine.start("counting")
    spec = replace(harness.spec, secret=coordinator.secret)
    function = StageFunction(StageSpec(operators=(spec,)), template, "application")
    pickled = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
    paths: list[CallPath] = []
    for batch_id in range(_BATCHES):
        coordinator.engine.plan(query_id, batch_id)
        _begin_task(query_id, run_id, batch_id)
        with recorded() as path:
            # A worker of Spark unpickles the function for each task.
            (rows,) = cloudpickle.loads(pickled)(iter(batches))
        counts = rows.column("count").to_pylist()
        assert counts == [batch_id + 1] * _KEYS, counts
        coordinator.engine.commit(query_id, batch_id)
        coordinator.coordinator.batch_committed(query_id, batch_id)
        paths.append(path)
    return paths[-1]


if __name__ == "__main__":
    sys.stdout.write(f"{path_of_steady_batch()}\n")
