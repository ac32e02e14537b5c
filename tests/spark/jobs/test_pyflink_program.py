"""A program with PyFlink's imports, through the alias."""

from __future__ import annotations

import sys
import textwrap
from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.streaming.compat import install_pyflink_alias
from queryable_state.streaming.compat.pyflink_alias import PyFlinkFinder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.spark.conftest import Connect, MakeFeed

PROGRAM = textwrap.dedent(
    '''
    from pyflink.common import Configuration, RestartStrategies, Types
    from pyflink.datastream import (
        CheckpointingMode,
        HashMapStateBackend,
        KeyedProcessFunction,
        RuntimeContext,
        StreamExecutionEnvironment,
    )
    from pyflink.datastream.state import ValueStateDescriptor


    class Highest(KeyedProcessFunction):
        """Emits each temperature that is the highest of its sensor so far."""

        def open(self, runtime_context: RuntimeContext):
            descriptor = ValueStateDescriptor("highest", Types.DOUBLE())
            descriptor.set_queryable("highest")
            self.highest = runtime_context.get_state(descriptor)

        def process_element(self, value, ctx: KeyedProcessFunction.Context):
            highest = self.highest.value()
            if highest is None or value.temperature > highest:
                self.highest.update(value.temperature)
                yield value.sensor, value.temperature


    def declared(readings):
        configuration = Configuration()
        configuration.set_string("pipeline.name", "highest temperatures")
        env = StreamExecutionEnvironment.get_execution_environment(configuration)
        env.set_parallelism(2)
        env.set_state_backend(HashMapStateBackend())
        env.enable_checkpointing(10_000, CheckpointingMode.EXACTLY_ONCE)
        env.set_restart_strategy(RestartStrategies.no_restart())
        stream = env.from_dataframe(readings).key_by("sensor")
        output = Types.ROW_NAMED(["sensor", "temperature"], [Types.STRING(), Types.DOUBLE()])
        stream.process(Highest(), output).uid("highest").print()
        return env
    '''
)


@pytest.fixture
def program() -> Iterator[dict[str, Any]]:
    """The names of the program; the alias is removed afterwards."""
    install_pyflink_alias()
    namespace: dict[str, Any] = {"__name__": "pyflink_program"}
    exec(PROGRAM, namespace)
    yield namespace
    sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, PyFlinkFinder)]
    for name in [name for name in sys.modules if name.partition(".")[0] == "pyflink"]:
        del sys.modules[name]


def test_it_runs_and_its_state_is_queryable(
    program: dict[str, Any],
    feed: MakeFeed,
    connect: Connect,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = feed("sensor string, temperature double")
    env = program["declared"](source.dataframe())
    for temperature in (20.0, 25.0, 21.0):
        source.add({"sensor": "a", "temperature": temperature})
    job = env.execute_async()
    job.process_all_available()
    assert job.name == "highest temperatures"
    state = connect(job).get_kv_state(job.get_job_id(), "highest", "a")
    assert state.value() == 25.0
    assert capsys.readouterr().out.splitlines() == [
        "Row(sensor='a', temperature=20.0)",
        "Row(sensor='a', temperature=25.0)",
    ]
    job.cancel()
