"""Port specs, and what happens when a port is taken."""

from __future__ import annotations

import contextlib
import logging
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import grpc
import grpc.aio
import pytest

from queryable_state.server.config.limits import Limits
from queryable_state.server.grpc_core import GrpcServer
from queryable_state.server.serving.listen_settings import (
    COORDINATOR_PORTS,
    ServerPorts,
    ports_of,
)
from queryable_state.server.serving.ports import EXCLUSIVE_PORT_OPTION, PortSpec, bind
from queryable_state.server.serving.query_server import public_options
from queryable_state.server.state_server.settings import StateServerSettings
from queryable_state.wire.addresses import join_address
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator


BINDER = """
import sys
from concurrent.futures import ThreadPoolExecutor
import grpc
from queryable_state.server.serving.ports import EXCLUSIVE_PORT_OPTION, PortSpec, bind
server = grpc.server(ThreadPoolExecutor(1), options=[EXCLUSIVE_PORT_OPTION])
print("ready", flush=True)
sys.stdin.readline()
spec = PortSpec.parse(sys.argv[1])
print(bind(server.add_insecure_port, spec, "127.0.0.1", what="query port"), flush=True)
sys.stdin.read()
"""


@pytest.fixture
def server() -> Iterator[grpc.Server]:
    server = grpc.server(ThreadPoolExecutor(1), options=[EXCLUSIVE_PORT_OPTION])
    yield server
    server.stop(None)


@pytest.fixture
def taken_port() -> Iterator[int]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        yield listener.getsockname()[1]


@pytest.mark.parametrize(
    ("text", "ports"),
    [
        ("9067", (9067,)),
        ("9067-9069", (9067, 9068, 9069)),
        ("9070, 9067-9068", (9070, 9067, 9068)),
        ("9067,9067", (9067,)),
        ("0", (0,)),
        ("9067-9087/10", (9067, 9077, 9087)),
        ("9067-9086/10,0", (9067, 9077, 0)),
    ],
)
def test_a_spec_is_a_port_a_range_or_a_list(text: str, ports: tuple[int, ...]) -> None:
    assert PortSpec.parse(text).ports == ports


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "9067-",
        "9068-9067",
        "65536",
        "-1",
        "1,,2",
        "0-9",
        "1-2-3",
        "9067/10",
        "9067-9167/0",
    ],
)
def test_a_malformed_spec_is_refused_and_says_how_to_write_one(text: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"query port.*9067-9077"):
        PortSpec.parse(text, "query port")


def test_the_first_free_port_of_a_spec_is_taken(server: grpc.Server, taken_port: int) -> None:
    spec = PortSpec.parse(f"{taken_port}-{taken_port + 20}")
    port = bind(server.add_insecure_port, spec, "127.0.0.1", what="query port")
    assert taken_port < port <= taken_port + 20


def test_a_zero_is_any_free_port_and_a_warning_says_which_one_was_taken(
    server: grpc.Server, taken_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    spec = PortSpec.parse(f"{taken_port},0", "--port")
    port = bind(server.add_insecure_port, spec, "127.0.0.1", what="query port")
    assert port not in (0, taken_port)
    [warned] = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert f"port {taken_port} is taken" in warned.message
    assert f"127.0.0.1:{port}" in warned.message
    assert "--port" in warned.message


def test_no_default_has_a_random_port_and_no_two_have_one_in_common() -> None:
    specs = [PortSpec.parse(ports) for ports in ports_of(ServerPorts()).values()]
    coordinator = PortSpec.parse(COORDINATOR_PORTS)
    ports = [port for spec in (*specs, coordinator) for port in spec.ports]
    assert 0 not in ports
    assert len({*ports}) == len(ports)
    first = {*range(9067, 9073)}
    assert {spec.ports[0] for spec in specs} == first
    assert {spec.ports[1] for spec in specs} == {port + 10 for port in first}


def test_a_listener_begins_at_the_place_of_the_first_one_of_its_process() -> None:
    first, frames = PortSpec.parse("9067-9087/10"), PortSpec.parse("9068-9088/10")
    assert frames.beginning_at(first.index(9077)).in_order == (9078, 9088, 9068)
    assert frames.beginning_at(0) == frames
    short = PortSpec.parse("9068").beginning_at(2)
    assert short.in_order == (9068,)
    with_any = PortSpec.parse("9067,0")
    assert with_any.index(40_000) == 1


def test_processes_that_start_at_once_get_a_port_each() -> None:
    """All look before any binds: the losers of a port pass over to the next one."""
    with contextlib.ExitStack() as stack:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            low = free.getsockname()[1]
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", BINDER, f"{low}-{low + 60}/10"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                )
            )
            for _ in range(4)
        ]
        for process in processes:
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        ports = [int(process.stdout.readline()) for process in processes if process.stdout]
    assert len({*ports}) == 4
    assert all((port - low) % 10 == 0 for port in ports)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0", "::"])
def test_a_stated_port_that_is_taken_is_a_typed_error(
    server: grpc.Server, taken_port: int, host: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """gRPC writes to the process's stderr itself about a port it cannot have; nothing is asked."""
    spec = PortSpec.parse(str(taken_port), "--port")
    with pytest.raises(InvalidRequestError, match=rf"query port: --port is '{taken_port}'.*range"):
        bind(server.add_insecure_port, spec, host, what="query port")
    assert capfd.readouterr().err == ""


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="no IPv6 here")
@pytest.mark.parametrize(("host", "strangers"), [("0.0.0.0", "::"), ("127.0.0.1", "::1")])
def test_a_port_taken_on_ipv6_alone_is_taken(
    server: grpc.Server, host: str, strangers: str
) -> None:
    """`localhost` is the stranger's otherwise, and `127.0.0.1` ours."""
    with socket.socket(socket.AF_INET6) as listener:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((strangers, 0))
        listener.listen()
        spec = PortSpec.parse(str(listener.getsockname()[1]))
        with pytest.raises(InvalidRequestError, match="no port of it is free"):
            bind(server.add_insecure_port, spec, host, what="query port")


def test_a_port_lost_to_another_between_look_and_bind_is_passed_over(
    server: grpc.Server, taken_port: int
) -> None:
    asked: list[str] = []

    def add_port(address: str) -> int:
        asked.append(address)
        return server.add_insecure_port(
            f"127.0.0.1:{taken_port}" if len(asked) == 1 else "127.0.0.1:0"
        )

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert bind(add_port, PortSpec.parse(f"{port},0"), "127.0.0.1", what="query port")
    assert asked == [f"127.0.0.1:{port}", "127.0.0.1:0"]


async def test_no_two_servers_of_ours_share_a_port() -> None:
    """gRPC's default lets them, and each connection goes to one of the two by chance."""
    options = public_options(Limits())
    for make in (lambda: grpc.aio.server(options=options), lambda: GrpcServer(options)):
        first, second = make(), make()
        port = first.add_insecure_port("127.0.0.1:0")
        with pytest.raises(RuntimeError):
            second.add_insecure_port(f"127.0.0.1:{port}")


@pytest.mark.parametrize("port", ["0", "9067"])
@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "2001:db8::1"])
def test_a_host_that_is_not_this_machines_is_a_typed_error(
    server: grpc.Server, host: str, port: str
) -> None:
    with pytest.raises(InvalidRequestError, match=f"proxy port.*'{host}'.* of this machine"):
        bind(server.add_insecure_port, PortSpec.parse(port), host, what="proxy port")


def test_an_ipv6_host_is_put_in_brackets() -> None:
    assert join_address("::1", 9067) == "[::1]:9067"


def test_settings_cross_a_pipe_unchanged_and_keep_the_secret_out_of_their_text() -> None:
    settings = StateServerSettings(
        coordinator_address="localhost:6123", secret="s3cret", executor_id="1", directory="/tmp/x"
    )
    assert StateServerSettings.from_json(settings.to_json()) == settings
    assert "s3cret" not in repr(settings)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"nonsense": 1}', '{"limits": 3}'])
def test_unreadable_settings_are_a_typed_error(text: str) -> None:
    with pytest.raises(InvalidRequestError, match="settings are not readable"):
        StateServerSettings.from_json(text)


def test_an_unknown_backend_is_refused_by_name() -> None:
    with pytest.raises(InvalidRequestError, match=r"'redis'.*heap, rocksdb"):
        StateServerSettings(
            coordinator_address="x",
            secret="s",
            executor_id="1",
            directory="/",
            backend="redis",  # type: ignore[arg-type]
        )
