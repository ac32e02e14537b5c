"""Listing 7-9: a max parallelism for all operators of an application.

The environment's max parallelism is the number of key groups of every operator without a max
parallelism of its own. The program prints the plan of the job and the key groups of its states.

    python examples/book/listing_7_9_application_max_parallelism.py
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sensor_source import sensor_stream

from queryable_state.client.blocking import QueryableStateClient
from queryable_state.streaming import StreamExecutionEnvironment

if TYPE_CHECKING:
    from queryable_state.streaming import JobClient

MAX_PARALLELISM = 512


def declare(env: StreamExecutionEnvironment) -> None:
    """Two operators with the application's max parallelism, and one with its own."""
    env.set_max_parallelism(MAX_PARALLELISM)
    sensors = sensor_stream(env, 20).key_by("id")
    sensors.aggregate_min("temperature", queryable_name="minimum").uid("minimum")
    sensors.aggregate_max("temperature", queryable_name="maximum").uid("maximum")
    readings = sensors.aggregate_max("timestamp", queryable_name="newest").uid("newest")
    readings.set_max_parallelism(32)


def key_groups(job: JobClient) -> dict[str, int]:
    """The number of key groups of each queryable state."""
    host, _, port = job.proxy_address().rpartition(":")
    with QueryableStateClient(host, int(port)) as client:
        states = client.list_states(job.get_job_id())
        return {state.state_name: state.registration.max_parallelism for state in states}


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    declare(env)
    job = env.execute_async("Max Parallelism of an Application")
    job.process_all_available()
    for name, count in sorted(key_groups(job).items()):
        print(f"{name} has {count} key groups")
    job.cancel()


if __name__ == "__main__":
    main()
