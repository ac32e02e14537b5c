"""A job for spark-submit that counts readings and prints one count; for test_py_files."""

from __future__ import annotations

import sys
import time

from pyspark.sql import SparkSession

from queryable_state.client.blocking import QueryableStateClient
from queryable_state.streaming import StreamExecutionEnvironment

session = SparkSession.builder.getOrCreate()
env = StreamExecutionEnvironment.get_execution_environment(session)
frame = session.readStream.schema("sensor string, temperature double").json(sys.argv[1])
env.from_dataframe(frame).key_by("sensor").as_queryable_state("last").uid("last")
started_s = time.monotonic()
try:
    job = env.execute_async("shipped")
    job.process_all_available()
finally:
    print(f"SECONDS {time.monotonic() - started_s:.1f}", flush=True)  # noqa: T201
host, _, port = job.proxy_addresses()[0].rpartition(":")
with QueryableStateClient(host, int(port)) as client:
    state = client.get_kv_state(job.job_id, "last", "a")
print(f"RESULT {state.value().temperature}", flush=True)  # noqa: T201 - read by the test
job.cancel()
