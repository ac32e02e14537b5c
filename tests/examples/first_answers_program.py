"""Runs the jobs of the demo or of the README on the machine's cores, and times their answers.

    python first_answers_program.py demo|README

Prints a JSON object: by job the seconds from `execute_async` until each of its states has a key
with a value, and the subtasks of its operators. Each job ends then.
"""

from __future__ import annotations

import json
import runpy
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from queryable_state.client.blocking import QueryableStateClient
from queryable_state.streaming import JobClient, StreamExecutionEnvironment
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
WITHIN_S = 240.0

report: dict[str, Any] = {}
start: Callable[..., JobClient] = StreamExecutionEnvironment.execute_async


def first_answer(job: JobClient) -> list[int]:
    """Waits until a key of each state of a job has a value; returns the operators' subtasks."""
    host, _, port = job.proxy_address(timeout_s=60).rpartition(":")
    with QueryableStateClient(host, int(port)) as client:
        until_s = time.monotonic() + WITHIN_S
        while time.monotonic() < until_s:
            job.raise_if_failed()
            try:
                states = [s for s in client.list_states(job.job_id) if s.kind != "TIMER"]
                if states and all(has_a_key(client, job, s.state_name) for s in states):
                    described = client.describe_job(job.job_id)
                    return [operator.parallelism for operator in described.operators]
            except QueryableStateError:
                pass
            time.sleep(0.05)
    raise TimeoutError(f"job {job} had no value within {WITHIN_S} s")


def has_a_key(client: QueryableStateClient, job: JobClient, state: str) -> bool:
    with client.scan(job.job_id, state, limit=1) as scan:
        return any(True for _ in scan)


def timed_start(env: StreamExecutionEnvironment, name: str, **options: Any) -> JobClient:
    began_s = time.monotonic()
    job = start(env, name, **options)
    subtasks = first_answer(job)
    report[name] = {"seconds": time.monotonic() - began_s, "subtasks": subtasks}
    job.cancel().result()
    return job


def run_demo() -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.master("local[2,4]").getOrCreate()
    env = StreamExecutionEnvironment.get_execution_environment(spark)
    demo = runpy.run_path(str(ROOT / "examples" / "temperature_job.py"))
    demo["declare"](env, demo["readings"](spark, 120), 3.5)
    timed_start(env, demo["JOB_NAME"])


def run_readme() -> None:
    """Its blocks in order, but for those that wait for a client's answers."""
    from tests.docs.pages import blocks

    setattr(StreamExecutionEnvironment, "execute_async", timed_start)  # noqa: B010 - it is timed
    namespace: dict[str, Any] = {"__name__": "__main__"}
    for block in blocks(ROOT / "README.md"):
        if block.language == "python" and "await" not in block.text and "async " not in block.text:
            exec(compile(block.text, str(block), "exec"), namespace)


if __name__ == "__main__":
    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    run_demo() if sys.argv[1] == "demo" else run_readme()
    sys.stdout.write(f"\nREPORT {json.dumps(report)}\n")
