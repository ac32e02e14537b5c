"""State servers of several executors of one machine: each takes a place in the ranges of ports."""

from __future__ import annotations

import contextlib
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING

import grpc
import pytest
from tests.state_server.executor import Executor, answers
from tests.waiting import DEADLINE_S

from queryable_state.server.coordinator.settings import CoordinatorSettings
from queryable_state.server.serving.listen_settings import ServerPorts
from queryable_state.server.testing import in_process_coordinator
from queryable_state.v1 import query_pb2, query_pb2_grpc
from queryable_state.wire.addresses import host_and_port

if TYPE_CHECKING:
    from pathlib import Path

    from queryable_state.server.state_server.base.server_directory import ServerAddresses

EXECUTORS = 3


def range_from(first: int) -> str:
    return f"{first}-{first + 10 * (EXECUTORS - 1)}/10"


def ports_of(addresses: ServerAddresses) -> list[int]:
    """The six ports of a server, in the order of their settings."""
    found = []
    for address in (addresses.query, addresses.proxy):
        with grpc.insecure_channel(address) as channel:
            stub = query_pb2_grpc.QueryableStateStub(channel)
            described = stub.DescribeServer(query_pb2.DescribeServerRequest(), timeout=DEADLINE_S)
        found += [host_and_port(address)[1], described.frames.port]
    return [*found, *(host_and_port(each)[1] for each in (addresses.backend, addresses.metrics))]


@pytest.mark.slow
def test_executors_that_start_at_once_take_neighbouring_ports_each(tmp_path: Path) -> None:
    """No more than there is room for: every place is taken by one of them."""
    # Below the ports that the system gives to connections, and another range for each test run.
    base = 20_000 + os.getpid() % 1_000 * 10
    ports = ServerPorts(
        server_ports=range_from(base),
        server_frame_ports=range_from(base + 1),
        proxy_ports=range_from(base + 2),
        proxy_frame_ports=range_from(base + 3),
        task_ports=range_from(base + 4),
        metrics_ports=range_from(base + 5),
    )
    settings = CoordinatorSettings(strict=False, ports="0", stop_timeout_s=2.0)
    with in_process_coordinator(settings=settings) as coordinator, contextlib.ExitStack() as stack:
        executors = []
        for number in range(EXECUTORS):
            executor = Executor(coordinator, tmp_path / f"executor-{number}-{tmp_path.name}")
            stack.callback(executor.end)
            executor.settings = replace(executor.settings, ports=ports)
            executors.append(executor)
        with ThreadPoolExecutor(EXECUTORS) as starting:
            servers = list(starting.map(Executor.ensure, executors))
        assert all(map(answers, servers))
        places = sorted(ports_of(server) for server in servers)
    assert places == [
        [base + 10 * place + offset for offset in range(6)] for place in range(EXECUTORS)
    ]
