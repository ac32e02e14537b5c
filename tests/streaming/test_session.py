"""What is risky about a Spark session is logged."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, cast

import pytest

from queryable_state.streaming.spark.session import warn_of_risks

if TYPE_CHECKING:
    from pyspark import SparkContext


class Context:
    """What is asked of a SparkContext: its master and its configuration."""

    def __init__(self, master: str, conf: dict[str, str]) -> None:
        self.master = master
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
