"""The relay passes bytes on, and does to one process what it is told."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from tests.chaos.faults.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def echo() -> Iterator[int]:
    """The port of a server that says what it hears."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(1024):
                connection.sendall(data)

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield listener.getsockname()[1]
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    thread.join(5)


@pytest.fixture
def relay(echo: int) -> Iterator[Relay]:
    with Relay(("127.0.0.2", 0), ("127.0.0.1", echo)) as relay:
        yield relay


def connect(relay: Relay) -> socket.socket:
    return socket.create_connection(("127.0.0.2", relay.port), timeout=5)


def say(connection: socket.socket, text: bytes) -> bytes:
    connection.sendall(text)
    return connection.recv(1024)


def test_it_passes_on_what_both_sides_say(relay: Relay) -> None:
    with closing(connect(relay)) as one, closing(connect(relay)) as other:
        assert say(one, b"one") == b"one"
        assert say(other, b"other") == b"other"


def test_who_is_cut_off_loses_connections_and_gets_no_new_ones(relay: Relay) -> None:
    with closing(connect(relay)) as one:
        assert say(one, b"one") == b"one"
        relay.cut_off(os.getpid())
        assert ended(one)
    with closing(connect(relay)) as late:
        assert ended(late)
    relay.cut_off(None)
    with closing(connect(relay)) as again:
        assert say(again, b"again") == b"again"


def test_who_is_held_up_gets_everything_later(relay: Relay) -> None:
    with closing(connect(relay)) as one:
        assert say(one, b"one") == b"one"
        relay.hold_up(os.getpid())
        one.sendall(b"late")
        one.settimeout(0.2)
        with pytest.raises(TimeoutError):
            one.recv(1024)
        relay.hold_up(None)
        one.settimeout(5)
        assert one.recv(1024) == b"late"


def test_others_are_not_touched(relay: Relay) -> None:
    with closing(connect(relay)) as one:
        relay.cut_off(1)
        assert say(one, b"one") == b"one"
        relay.hold_up(1)
        assert say(one, b"two") == b"two"


def ended(connection: socket.socket) -> bool:
    try:
        connection.sendall(b"?")
        return connection.recv(1024) == b""
    except OSError:
        return True
