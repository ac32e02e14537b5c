"""The documented deployment on a standalone cluster of Spark: a master and two workers, the packed
environment, a job by spark-submit, two stand-alone proxies, and clients that never stop asking."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from tests.chaos.clusters import StandaloneCluster, free_port
from tests.chaos.processes import executors_under, until
from tests.security.authority import Authority
from tests.standalone.driver import ROOT, START_S, Driver
from tests.standalone.load import JOB, Load, PlainLoad, PythonLoad
from tests.standalone.proxies import Proxy

from queryable_state.server.security.access.tokens import digest_of, new_token

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.standalone.conftest import Packed

pytestmark = [pytest.mark.standalone, pytest.mark.timeout(1000)]


class Deployment:
    """Cluster, driver and two proxies in one folder; TLS on every port, and callers have tokens.

    The proxies start before the driver, and find it by the endpoint file in the state root.
    """

    def __init__(self, folder: Path, archive: Path, stack: contextlib.ExitStack) -> None:
        self._folder, self._archive, self._stack = folder, archive, stack
        self.authority = Authority(folder / "certificates")
        certificate, key = self.authority.write()
        self.token = new_token()
        access = folder / "access.toml"
        grants = (ROOT / "deploy" / "spark-submit" / "grants.toml").read_text()
        access.write_text(f'[tokens]\ndashboard = "{digest_of(self.token)}"\n{grants}')
        security = {
            "tls_certificate": certificate,
            "tls_key": key,
            "tls_ca": self.authority.ca,
            "access_file": str(access),
        }
        state = folder / "state"
        self.cluster = stack.enter_context(StandaloneCluster(folder / "cluster"))
        # The port of Spark's master is taken by now.
        port = free_port()
        options = [f"--{name.replace('_', '-')}={value}" for name, value in security.items()]
        options += [f"--endpoint={state / JOB}", "--wait-for-driver"]
        self.proxies = [
            stack.enter_context(
                Proxy(folder / f"proxy-{number}", port + 2 * number, port + 2 * number + 1, options)
            )
            for number in (0, 1)
        ]
        self._settings = {
            "spark.queryable_state.checkpoint_directory": str(state),
            **{f"spark.queryable_state.{name}": value for name, value in security.items()},
        }
        self._drivers = 0
        self.driver = self.new_driver()

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
        found = []
        for executor in executors_under(self.cluster.folder):
            # It may end meanwhile.
            with contextlib.suppress(psutil.Error):
                found += [
                    child
                    for child in executor.children(recursive=True)
                    if "queryable_state.server.state_server" in child.cmdline()
                ]
        return found

    def state_server_proxy(self) -> str:
        """HOST:PORT of the proxy of one executor's state server."""
        files = [Path(server.cwd()) / "server.json" for server in self.state_servers()]
        return str(json.loads(files[0].read_text())["proxy"])


@pytest.fixture(scope="module")
def deployment(packed: Packed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with contextlib.ExitStack() as stack:
        yield Deployment(tmp_path_factory.mktemp("standalone"), packed.archive, stack)


@pytest.fixture(scope="module")
def loads(deployment: Deployment) -> Iterator[list[Load]]:
    """Clients under way, each of which has seen answers."""
    tls, token = deployment.authority.client(), deployment.token
    addresses = [proxy.address for proxy in deployment.proxies]
    with contextlib.ExitStack() as stack:
        found: list[Load] = [
            stack.enter_context(load)
            for load in (
                PythonLoad("Python client", addresses, tls=tls, token=token),
                PythonLoad(
                    "Python client by proxies only", addresses, tls=tls, token=token, direct=False
                ),
                PlainLoad("plain gRPC client", addresses, tls, token),
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


def test_a_caller_without_a_token_is_refused(deployment: Deployment, loads: list[Load]) -> None:
    command = [sys.executable, "-m", "queryable_state.cli", "get", "totals", "customer_1"]
    command += ["--tls-ca", deployment.authority.ca, "--server"]
    for address in (deployment.proxies[0].address, deployment.state_server_proxy()):
        refused = subprocess.run(
            [*command, address], capture_output=True, text=True, check=False, timeout=60
        )
        assert refused.returncode == 2
        assert "token" in refused.stderr


def test_no_query_fails_while_both_proxies_are_restarted(
    deployment: Deployment, loads: list[Load]
) -> None:
    for _ in range(2):
        for proxy in deployment.proxies:
            proxy.restart()
            for load in loads:
                load.more(100, 60.0)
    _no_failures(loads)


def _settled(load: Load) -> bool:
    """True if the next hundred answers came without a failure."""
    load.forgive()
    load.more(100, START_S)
    return not load.counts.failures


def test_a_killed_driver_is_started_again_under_the_same_proxies_and_clients(
    deployment: Deployment, loads: list[Load]
) -> None:
    seen = [dict(load.counts.totals) for load in loads]
    before = {server.pid for server in deployment.state_servers()}
    deployment.driver.kill()
    deployment.new_driver()
    until(
        lambda: len({each.pid for each in deployment.state_servers()} - before) == 2,
        START_S,
        "state servers of the new driver",
    )
    # Queries of the time without a driver may end late, at their deadlines.
    until(lambda: all(_settled(load) for load in loads), START_S, "queries without a failure")
    for proxy in deployment.proxies:
        proxy.require_running()
    for load, totals in zip(loads, seen, strict=True):
        load.more(200, 60.0)
        assert load.counts.totals.keys() >= totals.keys()
    # Answers go on without a failure, and no total is below one that was answered before the kill.
    _no_failures(loads)
