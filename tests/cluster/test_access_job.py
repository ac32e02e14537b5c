"""A job whose servers ask for tokens, with an access file that Spark ships to the executors."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest
from tests.cluster.conftest import SENSORS, counted_job, two_executors

from queryable_state.client import AuthenticationError, PermissionDeniedError
from queryable_state.client.blocking import QueryableStateClient
from queryable_state.server.security.access.tokens import digest_of
from queryable_state.wire.addresses import host_and_port

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from queryable_state.streaming import StreamExecutionEnvironment

RULES = f"""
[tokens]
reader = "{digest_of("qst_reader")}"
[[grants]]
callers = ["reader"]
jobs = ["counting"]
states = ["count"]
kinds = ["read"]
"""


@pytest.fixture(scope="module")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    rules = tmp_path_factory.mktemp("access") / "access.toml"
    rules.write_text(RULES)
    with two_executors(
        spark__files=str(rules), spark__queryable_state__access_file=rules.name
    ) as session:
        yield session


def test_each_state_server_answers_what_the_token_may_read(
    env: StreamExecutionEnvironment, spark: SparkSession, tmp_path: Path
) -> None:
    job = counted_job(env, spark, tmp_path)
    for address in job.proxy_addresses():
        host, port = host_and_port(address)
        with closing(QueryableStateClient(host, port, timeout_s=30, token="qst_reader")) as client:
            found: list[Any] = client.get_kv_states(job.job_id, "count", SENSORS)
            assert [state.value() for state in found] == [3] * len(SENSORS)
            with pytest.raises(PermissionDeniedError):
                client.measure(job.job_id, "count")
        with (
            closing(QueryableStateClient(host, port, timeout_s=30)) as client,
            pytest.raises(AuthenticationError),
        ):
            client.get_kv_states(job.job_id, "count", SENSORS)
    job.cancel()
