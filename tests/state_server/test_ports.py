"""Port specs, and what happens when a port is taken."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import grpc
import pytest

from queryable_state.server.ports import EXCLUSIVE_PORT_OPTION, PortSpec, bind, join_address
from queryable_state.server.settings import StateServerSettings
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterator


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
    ],
)
def test_a_spec_is_a_port_a_range_or_a_list(text: str, ports: tuple[int, ...]) -> None:
    assert PortSpec.parse(text).ports == ports


@pytest.mark.parametrize(
    "text", ["", "x", "9067-", "9068-9067", "65536", "-1", "1,,2", "0-9", "1-2-3"]
)
def test_a_malformed_spec_is_refused_and_says_how_to_write_one(text: str) -> None:
    with pytest.raises(InvalidRequestError, match=r"query port.*9067-9077"):
        PortSpec.parse(text, "query port")


def test_the_first_free_port_of_a_spec_is_taken(server: grpc.Server, taken_port: int) -> None:
    spec = PortSpec.parse(f"{taken_port},0")
    port = bind(server.add_insecure_port, spec, "127.0.0.1", what="query port", strict=True)
    assert port not in (0, taken_port)


def test_any_free_port_follows_an_exhausted_spec_and_is_logged(
    server: grpc.Server, taken_port: int, caplog: pytest.LogCaptureFixture
) -> None:
    spec = PortSpec.parse(str(taken_port))
    port = bind(server.add_insecure_port, spec, "127.0.0.1", what="query port")
    assert port not in (0, taken_port)
    assert f"127.0.0.1:{port}" in caplog.text


def test_a_strict_spec_that_is_exhausted_is_a_typed_error(
    server: grpc.Server, taken_port: int
) -> None:
    spec = PortSpec.parse(str(taken_port))
    with pytest.raises(InvalidRequestError, match=rf"query port.*{taken_port}.*free"):
        bind(server.add_insecure_port, spec, "127.0.0.1", what="query port", strict=True)


def test_a_port_that_is_taken_is_left_without_a_word_on_the_terminal(
    server: grpc.Server, taken_port: int, capfd: pytest.CaptureFixture[str]
) -> None:
    """gRPC writes to the process's stderr itself about a port it cannot have."""
    for host in ("127.0.0.1", "localhost", "0.0.0.0"):
        bind(server.add_insecure_port, PortSpec.parse(str(taken_port)), host, what="query port")
    assert capfd.readouterr().err == ""


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
    assert bind(add_port, PortSpec.parse(str(port)), "127.0.0.1", what="query port")
    assert asked == [f"127.0.0.1:{port}", "127.0.0.1:0"]


def test_a_host_that_is_not_this_machines_is_a_typed_error(server: grpc.Server) -> None:
    with pytest.raises(InvalidRequestError, match=r"proxy port.*'192\.0\.2\.1'"):
        bind(server.add_insecure_port, PortSpec.parse("0"), "192.0.2.1", what="proxy port")


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
