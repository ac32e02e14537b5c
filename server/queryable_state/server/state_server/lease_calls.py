"""Blocking lease calls of a state server to the coordinator, on a channel of their own."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Protocol

import grpc

from queryable_state.internal.v1 import coordinator_pb2_grpc
from queryable_state.server.coordinator_client import translated
from queryable_state.wire.calls.channel_options import channel_options
from queryable_state.wire.errors import RetryLaterError
from queryable_state.wire.security.connector import CLEAR_TEXT
from queryable_state.wire.security.signed_calls import COORDINATOR, CallSigner, signed_stub
from queryable_state.wire.security.tls_probe import TlsDiagnosis

if TYPE_CHECKING:
    from queryable_state.internal.v1 import coordinator_pb2
    from queryable_state.wire.security.connector import Connector

_REGISTER_TIMEOUT_S = 5.0


class LeaseCalls(Protocol):
    """Blocking calls; each raises the coordinator's refusal, or an error if it does not answer."""

    @property
    def address(self) -> str:
        """HOST:PORT of the coordinator."""
        ...

    def register_server(
        self, request: coordinator_pb2.RegisterServerRequest
    ) -> coordinator_pb2.Lease:
        """Registers the server; returns its first lease."""
        ...

    def heartbeat(
        self, request: coordinator_pb2.HeartbeatRequest, timeout_s: float
    ) -> coordinator_pb2.Lease:
        """Renews the lease."""
        ...

    def close(self) -> None:
        """Cancels a running call; from any thread, idempotent."""
        ...


class CoordinatorLeaseCalls:
    """`LeaseCalls` over gRPC; not for the thread of an event loop, which they would block."""

    def __init__(self, address: str, secret: str, *, connector: Connector = CLEAR_TEXT) -> None:
        self.address = address
        self._connector = connector
        self._diagnosis = TlsDiagnosis(address, connector)
        self._signer = CallSigner(secret)
        self._closed = False
        self._open()

    def register_server(
        self, request: coordinator_pb2.RegisterServerRequest
    ) -> coordinator_pb2.Lease:
        return self._call("RegisterServer", request, _REGISTER_TIMEOUT_S)

    def heartbeat(
        self, request: coordinator_pb2.HeartbeatRequest, timeout_s: float
    ) -> coordinator_pb2.Lease:
        return self._call("Heartbeat", request, timeout_s)

    def close(self) -> None:
        self._closed = True
        self._channel.close()

    def _open(self) -> None:
        self._generation = self._connector.generation
        self._channel = self._connector.blocking_channel(self.address, channel_options())
        self._stub = signed_stub(
            coordinator_pb2_grpc.CoordinatorStub(self._channel), COORDINATOR, self._signer
        )

    def _call(self, method: str, request: Any, timeout_s: float) -> coordinator_pb2.Lease:
        if self._generation != self._connector.generation and not self._closed:
            self._channel.close()
            self._open()
        rpc: Any = getattr(self._stub, method)
        # A closed channel refuses calls by a ValueError.
        with contextlib.suppress(ValueError):
            for is_last in (False, True):
                try:
                    lease: coordinator_pb2.Lease = rpc(request, timeout=timeout_s)
                except grpc.RpcError as failure:
                    if self._closed:
                        break
                    error = translated(failure, self.address, timeout_s)
                    if is_last or not self._signer.corrects(error):
                        raise self._diagnosis.explained_blocking(error) from failure
                else:
                    self._diagnosis.succeeded()
                    return lease
        raise RetryLaterError(f"the client of coordinator {self.address} is closed")
