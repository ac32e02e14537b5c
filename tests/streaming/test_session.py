"""What is risky about a Spark session is logged."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, cast

import pytest

from queryable_state.streaming.spark.session import DefaultParallelism, warn_of_risks

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession


class Context:
    """What is asked of a SparkContext: its master and its configuration."""

    def __init__(self, master: str, conf: dict[str, str]) -> None:
        self.master = master
        self.defaultParallelism = 2
        self._conf = conf

    def getConf(self) -> dict[str, str]:
        return self._conf


@pytest.mark.parametrize(
    ("master", "conf", "text"),
    [
        ("local", {}, "use local[2,4]"),
        ("local[8]", {}, "use local[8,4]"),
        ("local[*]", {}, "use local[*,4]"),
        ("local[2,4]", {}, ""),
        ("local-cluster[2,1,1024]", {}, ""),
        ("spark://host:7077", {"spark.speculation": "true"}, "spark.speculation"),
    ],
)
def test_a_job_without_retries_or_with_speculation_is_warned_of(
    caplog: pytest.LogCaptureFixture, master: str, conf: dict[str, str], text: str
) -> None:
    with caplog.at_level(logging.WARNING, "queryable_state.streaming"):
        warn_of_risks(cast("SparkContext", Context(master, conf)))
    assert text in caplog.text
    assert bool(caplog.records) is bool(text)


class Session:
    """What is asked of a SparkSession: its context and its set configuration."""

    def __init__(self, context: Context) -> None:
        self.sparkContext = context
        self.conf = self

    def get(self, key: str, default: str | None = "200") -> str | None:
        return default


@pytest.mark.parametrize(
    ("master", "conf", "parallelism"),
    [
        ("local[2]", {}, 2),
        ("spark://host:7077", {}, 2),
        ("yarn", {"spark.executor.instances": "4", "spark.executor.cores": "3"}, 12),
        ("yarn", {"spark.dynamicAllocation.enabled": "true"}, 128),
        ("local[2]", {"spark.dynamicAllocation.enabled": "true"}, 2),
    ],
)
def test_cores_that_have_not_registered_yet_are_counted_too(
    master: str, conf: dict[str, str], parallelism: int
) -> None:
    session = cast("SparkSession", Session(Context(master, conf)))
    assert DefaultParallelism(session).within(128) == parallelism
