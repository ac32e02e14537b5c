"""Random questions to a running job, whose every answer is known."""

from __future__ import annotations

import json
import os
import signal
from typing import TYPE_CHECKING

import pytest
from tests.chaos.jobs.spark_job import KnownSparkJob

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.spark.conftest import NewEnvironment


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("backend", ["heap", pytest.param("rocksdb", marks=pytest.mark.wide)])
def test_answers_are_right_while_servers_die_and_after_a_restart(
    new_environment: NewEnvironment, spark: SparkSession, tmp_path: Path, backend: str
) -> None:
    known = KnownSparkJob(tmp_path / "job", seed=21)
    known.start(new_environment(backend=backend).set_parallelism(3), spark)
    known.run(6)
    with known.asking() as asking:
        known.run(4)
        asking.wait(60)
        for told in tmp_path.glob("queryable-state-*/server.json"):
            os.kill(json.loads(told.read_text())["pid"], signal.SIGKILL)
        known.run(4)
        asking.wait(60)
    known.keep(asking)
    known.job.cancel()

    # Servers and coordinator are gone; what was stored is answered before there is input.
    committed = known.committed
    known.start(new_environment(backend=backend).set_parallelism(3), spark)
    with known.asking() as asking:
        asking.wait(150)
        assert known.committed <= committed + 1, "only the first batch of a job with timers"
        known.run(3)
        asking.wait(60)
    known.keep(asking)
    known.judge()
