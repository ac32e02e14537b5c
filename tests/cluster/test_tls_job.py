"""A job with mutual TLS on every port, whose certificates Spark ships to the executors."""

from __future__ import annotations

import functools
import socket
from contextlib import closing
from typing import TYPE_CHECKING

import psutil
import pytest
from tests.cluster.conftest import SENSORS, counted_job, two_executors
from tests.security.authority import Authority
from tests.waiting import until

from queryable_state.client.blocking import QueryableStateClient
from queryable_state.wire.addresses import host_and_port
from queryable_state.wire.security.connector import CLEAR_TEXT
from queryable_state.wire.security.tls_probe import tls_problem

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from queryable_state.streaming import StreamExecutionEnvironment


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="module")
def spark(authority: Authority) -> Iterator[SparkSession]:
    certificate, key = authority.write("server", "127.0.0.1", "localhost", socket.gethostname())
    settings = {
        "spark__files": f"{certificate},{key},{authority.ca}",
        "spark__queryable_state__tls": "on",
        "spark__queryable_state__tls_certificate": "server.pem",
        "spark__queryable_state__tls_key": "server.key",
        "spark__queryable_state__tls_ca": "ca.pem",
        "spark__queryable_state__tls_client_certificates": "required",
    }
    with two_executors(**settings) as session:
        yield session


def test_a_job_with_tls_everywhere_is_queried_with_frames_and_unary(
    env: StreamExecutionEnvironment, spark: SparkSession, authority: Authority, tmp_path: Path
) -> None:
    job = counted_job(env, spark, tmp_path)
    for address in job.proxy_addresses():
        host, port = host_and_port(address)
        with closing(
            QueryableStateClient(host, port, timeout_s=30, tls=authority.client(own=True))
        ) as client:
            found = client.get_kv_states(job.job_id, "count", SENSORS)
            assert [state and state.value() for state in found] == [3] * len(SENSORS)
            assert len(client.list_states(job.job_id)) == 1
            until(functools.partial(uses_frames, client))
    everywhere = {env.coordinator_address, *listening(spark)}
    # Two servers with six ports each, and the coordinator.
    assert len(everywhere) >= 13
    for address in everywhere:
        assert "expects TLS" in str(tls_problem(address, CLEAR_TEXT)), address
    job.cancel()


def uses_frames(client: QueryableStateClient) -> bool:
    """True if a stream of frames is open."""
    return "frames" in {each.transport for each in client.connections()}


def listening(spark: SparkSession) -> set[str]:
    """HOST:PORT of every port of the state servers."""
    application = spark.sparkContext.applicationId
    servers = [
        process
        for process in psutil.process_iter()
        if "queryable_state.server.state_server" in _command(process)
        and application in _folder(process)
    ]
    assert len(servers) == 2
    return {
        f"127.0.0.1:{each.laddr.port}"
        for server in servers
        for each in server.net_connections("tcp")
        if each.status == psutil.CONN_LISTEN
    }


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _folder(process: psutil.Process) -> str:
    try:
        return process.cwd()
    except psutil.Error:
        return ""
