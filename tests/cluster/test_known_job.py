"""Two executors: random questions whose answers are known, while one is killed, and after a restart.

One session for all of it; every kind of question is among them (`tests.chaos.asker`).
"""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

import pytest
from tests.chaos.reads import What
from tests.chaos.spark_job import KnownSparkJob
from tests.chaos.workload import GROUPS, KEYS, SHARES, TOTALS
from tests.cluster.conftest import executors
from tests.spark.waiting import until

from queryable_state.client import KeyStatus, VersionGoneError
from queryable_state.client.blocking import QueryableStateClient
from queryable_state.streaming.spark.application import SparkApplication

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from queryable_state.streaming import StreamExecutionEnvironment


def new_env(spark: SparkSession, backend: str) -> StreamExecutionEnvironment:
    """An environment whose coordinator and state servers are new."""
    for query in spark.streams.active:
        query.stop()
    SparkApplication.close_all()
    env = StreamExecutionEnvironment.get_execution_environment(spark)
    return env.set_state_backend(backend).set_parallelism(4)
