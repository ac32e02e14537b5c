"""Connections of this worker process to state servers, shared by its tasks."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from queryable_state.internal.v1.backend_pb2_grpc import StateBackendStub
from queryable_state.wire.calls.channel_options import channel_options
from queryable_state.wire.security.connector import CLEAR_TEXT, Connector
from queryable_state.wire.security.signed_calls import BACKEND, CallSigner, signed_stub
from queryable_state.wire.security.tls_probe import TlsDiagnosis

if TYPE_CHECKING:
    import grpc

    from queryable_state.streaming.runtime.operators.spec import OperatorSpec
    from queryable_state.wire.security.tls import Tls

_Key: TypeAlias = tuple[int, str, str, "Tls | None"]


class BackendConnection(NamedTuple):
    """The connection to one state server."""

    channel: grpc.Channel
    stub: StateBackendStub
    """Signs each call; its methods take no metadata."""
    signer: CallSigner
    diagnosis: TlsDiagnosis
    generation: int
    """The TLS files with which it was opened, as the connector counts them."""


_lock = threading.Lock()
# The key contains the process id: a channel does not survive a fork. A restarted application has
# another secret.
_connections: dict[_Key, BackendConnection] = {}
_connectors: dict[tuple[int, Tls], Connector] = {}


def backend_connection(address: str, spec: OperatorSpec) -> BackendConnection:
    """The connection of the tasks of one application to the state server at HOST:PORT.

    Raises `InvalidRequestError` if a TLS file of the application cannot be used on this machine.
    """
    key = (os.getpid(), address, spec.secret, spec.tls)
    with _lock:
        connector = CLEAR_TEXT if spec.tls is None else _connector(spec.tls)
        found = _connections.get(key)
        generation = connector.generation
        if found is not None and found.generation != generation:
            found.channel.close()
            found = None
        if found is None:
            channel = connector.blocking_channel(address, channel_options())
            signer = CallSigner(spec.secret, address)
            stub = signed_stub(StateBackendStub(channel), BACKEND, signer)
            found = _connections[key] = BackendConnection(
                channel, stub, signer, TlsDiagnosis(address, connector), generation
            )
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
    for pid, address, *_ in list(_connections):
        if pid == os.getpid():
            forget(address)


def _connector(tls: Tls) -> Connector:
    key = (os.getpid(), tls)
    found = _connectors.get(key)
    if found is None:
        found = _connectors[key] = Connector(tls, setting="spark.queryable_state.tls_{0}")
    return found
