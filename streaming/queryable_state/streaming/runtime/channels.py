"""Connections of this worker process to state servers, shared by its tasks."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, NamedTuple

import grpc

from queryable_state.internal.v1.backend_pb2_grpc import StateBackendStub
from queryable_state.wire.calls.channel_options import channel_options
from queryable_state.wire.security.signed_calls import BACKEND, CallSigner, signed_stub

if TYPE_CHECKING:
    from queryable_state.streaming.runtime.operators.spec import OperatorSpec


class BackendConnection(NamedTuple):
    """The connection to one state server."""

    channel: grpc.Channel
    stub: StateBackendStub
    """Signs each call; its methods take no metadata."""
    signer: CallSigner


_lock = threading.Lock()
# The key contains the process id: a channel does not survive a fork. A restarted application has
# another secret.
_connections: dict[tuple[int, str, str], BackendConnection] = {}


def backend_connection(address: str, spec: OperatorSpec) -> BackendConnection:
    """The connection of the tasks of one application to the state server at HOST:PORT."""
    key = (os.getpid(), address, spec.secret)
    with _lock:
        found = _connections.get(key)
        if found is None:
            channel = grpc.insecure_channel(address, channel_options())
            signer = CallSigner(spec.secret, address)
            stub = signed_stub(StateBackendStub(channel), BACKEND, signer)
            found = _connections[key] = BackendConnection(channel, stub, signer)
    return found


def forget(address: str) -> None:
    """Closes the connections to a server that is gone. Idempotent."""
    with _lock:
        gone = [key for key in _connections if key[:2] == (os.getpid(), address)]
        closing = [_connections.pop(key) for key in gone]
    for connection in closing:
        connection.channel.close()


def close_all() -> None:
    """Closes the connections of this process."""
    for pid, address, _ in list(_connections):
        if pid == os.getpid():
            forget(address)
