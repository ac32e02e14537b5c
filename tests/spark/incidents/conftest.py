"""One application for the staged incidents, with REST beside the driver and an access file."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest
from tests.spark.incidents.on_call import OnCall

from queryable_state.streaming import EnvironmentSettings, StreamExecutionEnvironment
from queryable_state.streaming.spark.application import SparkApplication

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

    from queryable_state.streaming import JobClient

TOKENS = {"on_call": "the-token-of-the-person-on-call", "dashboard": "the-token-of-the-dashboard"}
QUERIES_PER_S = 5

_ACCESS = """
[tokens]
{tokens}

[[grants]]
callers = ["on_call", "dashboard"]
jobs = ["*"]
states = ["*"]
kinds = ["list", "read", "scan"]

[[limits]]
callers = ["dashboard"]
states = ["*"]
queries_per_s = {queries_per_s}
"""


@pytest.fixture(scope="module")
def application(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StreamExecutionEnvironment]:
    """The application of the module; its jobs keep their state durably."""
    folder = tmp_path_factory.mktemp("incidents")
    access = folder / "access.toml"
    digests = {name: hashlib.sha256(token.encode()).hexdigest() for name, token in TOKENS.items()}
    tokens = "\n".join(f'{name} = "sha256:{digest}"' for name, digest in digests.items())
    access.write_text(_ACCESS.format(tokens=tokens, queries_per_s=QUERIES_PER_S))
    access.chmod(0o600)
    SparkApplication.close_all()
    settings = EnvironmentSettings(
        lease_ms=2_000,
        lease_margin_ms=300,
        directory=str(folder / "servers"),
        checkpoint_directory=str(folder / "state"),
        access_file=str(access),
        web="on",
        web_ports="0",
    )
    yield StreamExecutionEnvironment.get_execution_environment(spark, settings)
    for query in spark.streams.active:
        query.stop()
    SparkApplication.close_all()


@pytest.fixture
def env(
    application: StreamExecutionEnvironment, spark: SparkSession
) -> Iterator[StreamExecutionEnvironment]:
    """The environment of one incident; its jobs end with the test."""
    yield application
    for query in spark.streams.active:
        query.stop()


@pytest.fixture
def on_call() -> Callable[[JobClient], OnCall]:
    """Makes the person who looks at a job."""

    def looking_at(job: JobClient) -> OnCall:
        return OnCall(job.proxy_address(), job.web_address(), TOKENS["on_call"])

    return looking_at
