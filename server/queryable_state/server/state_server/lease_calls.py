"""Blocking lease calls of a state server to the coordinator, on a channel of their own."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Protocol

import grpc

from queryable_state.internal.v1 import coordinator_pb2_grpc
from queryable_state.server.coordinator_client import translated
from queryable_state.wire.calls.channel_options import channel_options
from queryable_state.wire.errors import RetryLaterError
from queryable_state.wire.security.signed_calls import COORDINATOR, CallSigner, signed_stub

if TYPE_CHECKING:
    from queryable_state.internal.v1 import coordinator_pb2

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

    def __init__(self, address: str, secret: str) -> None:
        self.address = address
        self._signer = CallSigner(secret)
        self._closed = False
        self._channel = grpc.insecure_channel(address, options=channel_options())
        self._stub = signed_stub(
            coordinator_pb2_grpc.CoordinatorStub(self._channel), COORDINATOR, self._signer
        )

    def register_server(
        self, request: coordinator_pb2.RegisterServerRequest
    ) -> coordinator_pb2.Lease:
        return self._call(self._stub.RegisterServer, request, _REGISTER_TIMEOUT_S)

    def heartbeat(
        self, request: coordinator_pb2.HeartbeatRequest, timeout_s: float
    ) -> coordinator_pb2.Lease:
        return self._call(self._stub.Heartbeat, request, timeout_s)

    def close(self) -> None:
        self._closed = True
        self._channel.close()

    def _call(self, rpc: Any, request: Any, timeout_s: float) -> coordinator_pb2.Lease:
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
                        raise error from failure
                else:
                    return lease
        raise RetryLaterError(f"the client of coordinator {self.address} is closed")
