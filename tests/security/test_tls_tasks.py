"""TLS of tasks: the harness on state servers with TLS, and files that Spark has shipped."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark import SparkFiles

from queryable_state.client import AuthenticationError, Types
from queryable_state.client.blocking import QueryableStateClient
from queryable_state.streaming.runtime.aggregates.aggregate import (
    Aggregate,
    AggregateKind,
    FieldAggregate,
)
from queryable_state.streaming.spark.shipped_files import tls_on_this_machine
from queryable_state.streaming.testing import KeyedOperatorHarness
from queryable_state.streaming.testing.local_cluster import LocalCluster
from queryable_state.wire.addresses import host_and_port

if TYPE_CHECKING:
    from tests.security.authority import Authority

    from queryable_state.streaming.testing.local_cluster import ClusterQuery


def sums(owner: ClusterQuery) -> KeyedOperatorHarness:
    """A sum by key in a queryable state."""
    return KeyedOperatorHarness(
        Aggregate((FieldAggregate("v", AggregateKind.SUM, Types.LONG()),), "sums", "sums"),
        "k STRING, v BIGINT",
        key_by="k",
        output_type="k STRING, v BIGINT",
        owner=owner,
    )


@pytest.mark.parametrize("mutual", [False, True])
def test_the_harness_runs_on_servers_with_tls(
    tmp_path: Path, authority: Authority, mutual: bool
) -> None:
    tls = authority.settings(mutual=mutual)
    with LocalCluster(tmp_path / "cluster", servers=2, tls=tls) as cluster:
        harness = sums(cluster.start_query("job"))
        for _ in range(3):
            harness.process([("a", 1), ("b", 2)])
        host, port = host_and_port(cluster.proxy_address())
        with QueryableStateClient(
            host, port, tls=authority.client(own=mutual), timeout_s=20.0
        ) as client:
            assert client.get_kv_state(None, "sums", "b").get() == 6


def test_a_task_that_does_not_trust_the_servers_says_so(
    tmp_path: Path, authority: Authority, stranger: Authority
) -> None:
    with LocalCluster(tmp_path / "cluster", tls=authority.settings()) as cluster:
        query = cluster.start_query("job")
        query._tls = stranger.client()
        with pytest.raises(AuthenticationError, match=r"not signed by an authority .*tls_ca"):
            sums(query).process([("a", 1)])


def test_a_relative_path_is_a_file_that_spark_has_shipped(
    tmp_path: Path, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = authority.settings()
    monkeypatch.setattr(SparkFiles, "_is_running_on_worker", True)
    monkeypatch.setattr(SparkFiles, "_root_directory", str(authority.folder))
    relative = replace(
        settings,
        tls_certificate=Path(settings.tls_certificate).name,
        tls_key=Path(settings.tls_key).name,
        tls_ca="missing.pem",
    )
    found = tls_on_this_machine(relative)
    assert found == replace(settings, tls_ca="missing.pem")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "missing.pem").write_text("here")
    assert tls_on_this_machine(relative).tls_ca == str(tmp_path / "missing.pem")
