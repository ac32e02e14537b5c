"""The documented deployment on a standalone cluster of Spark: a master and two workers, the packed
environment, a job by spark-submit, two stand-alone proxies, and clients that never stop asking."""

from __future__ import annotations

import contextlib
import secrets
from typing import TYPE_CHECKING

import pytest
from tests.chaos.clusters import StandaloneCluster, free_port
from tests.chaos.processes import executors_under, until
from tests.standalone.driver import START_S, Driver
from tests.standalone.load import Load, PlainLoad, PythonLoad
from tests.standalone.proxies import Proxy

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import psutil
    from tests.standalone.conftest import Packed

pytestmark = [pytest.mark.standalone, pytest.mark.timeout(600)]

_HOST = "127.0.0.1"


class Deployment:
    """Cluster, driver and two proxies in one folder."""

    def __init__(self, folder: Path, archive: Path, stack: contextlib.ExitStack) -> None:
        self._folder, self._archive, self._stack = folder, archive, stack
        secret = folder / "secret"
        secret.write_text(secrets.token_hex(16))
        secret.chmod(0o600)
        self.cluster = stack.enter_context(StandaloneCluster(folder / "cluster"))
        # The port of Spark's master is taken by now.
        coordinator = free_port()
        self._settings = {
            "spark.queryable_state.checkpoint_directory": str(folder / "state"),
            "spark.queryable_state.coordinator_ports": str(coordinator),
            "spark.queryable_state.secret": secret.read_text(),
        }
        self._drivers = 0
        self.driver = self.new_driver()
        self.driver.until_listening(coordinator)
        self.proxies = [
            stack.enter_context(
                Proxy(
                    folder / f"proxy-{number}",
                    coordinator + 10 * number,
                    coordinator + 10 * number + 1,
                    ("--coordinator", f"{_HOST}:{coordinator}", "--secret-file", str(secret)),
                )
            )
            for number in (1, 2)
        ]

    def new_driver(self) -> Driver:
        """Starts a driver; the same submission each time."""
        self._drivers += 1
        self.driver = self._stack.enter_context(
            Driver(
                self._folder / f"driver-{self._drivers}",
                master=self.cluster.master,
                archive=self._archive,
                settings=self._settings,
            )
        )
        return self.driver

    def state_servers(self) -> list[psutil.Process]:
        """The state servers of this cluster's executors."""
        return [
            child
            for executor in executors_under(self.cluster.folder)
            for child in executor.children(recursive=True)
            if "queryable_state.server.state_server" in child.cmdline()
        ]


@pytest.fixture(scope="module")
def deployment(packed: Packed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with contextlib.ExitStack() as stack:
        yield Deployment(tmp_path_factory.mktemp("standalone"), packed.archive, stack)


@pytest.fixture(scope="module")
def loads(deployment: Deployment) -> Iterator[list[Load]]:
    """Clients under way, each of which has seen answers."""
    first, second = deployment.proxies
    with contextlib.ExitStack() as stack:
        found: list[Load] = [
            stack.enter_context(load)
            for load in (
                PythonLoad("Python client", _HOST, first.port),
                PythonLoad("Python client by proxies only", _HOST, first.port, direct=False),
                PlainLoad("plain gRPC client", [first.address, second.address]),
            )
        ]
        for load in found:
            load.more(50, START_S)
            load.forgive()
        yield found


def _no_failures(loads: list[Load]) -> None:
    assert {load.name: load.counts.failures for load in loads if load.counts.failures} == {}
    assert {load.name: load.counts.lost for load in loads if load.counts.lost} == {}


def test_the_job_runs_on_both_workers_from_the_packed_environment(
    deployment: Deployment, loads: list[Load]
) -> None:
    deployment.driver.require_running()
    until(lambda: len(deployment.state_servers()) == 2, START_S, "two state servers")
    for server in deployment.state_servers():
        assert "/environment/bin/python" in server.cmdline()[0]
        assert server.cmdline()[0].startswith(str(deployment.cluster.folder))


def test_no_query_fails_while_both_proxies_are_restarted(
    deployment: Deployment, loads: list[Load]
) -> None:
    for _ in range(2):
        for proxy in deployment.proxies:
            proxy.restart()
            for load in loads:
                load.more(100, 30.0)
    _no_failures(loads)


def test_a_killed_driver_is_started_again_under_the_same_proxies_and_clients(
    deployment: Deployment, loads: list[Load]
) -> None:
    seen = [dict(load.counts.totals) for load in loads]
    deployment.driver.kill()
    deployment.new_driver()
    until(lambda: len(executors_under(deployment.cluster.folder)) >= 2, START_S, "new executors")
    for load in loads:
        load.more(100, START_S)
        load.forgive()
    for proxy in deployment.proxies:
        proxy.require_running()
    for load, before in zip(loads, seen, strict=True):
        load.more(200, 30.0)
        assert load.counts.totals.keys() >= before.keys()
    # Answers go on without a failure, and no total is below one that was answered before the kill.
    _no_failures(loads)
