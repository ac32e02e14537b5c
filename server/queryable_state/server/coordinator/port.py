"""The coordinator's port."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import grpc

from queryable_state.internal.v1 import coordinator_pb2_grpc
from queryable_state.server.security.access.protected_mode import check_listener
from queryable_state.server.security.server_tls import ServerTls, port_adder
from queryable_state.server.security.signature_check import SignatureCheck
from queryable_state.server.security.signature_interceptors import BlockingSignatureInterceptor
from queryable_state.server.serving.advertised import advertised_host
from queryable_state.server.serving.ports import (
    EXCLUSIVE_PORT_OPTION,
    SETTING_PREFIX,
    PortSpec,
    bind,
)
from queryable_state.wire.addresses import join_address

if TYPE_CHECKING:
    from queryable_state.server.coordinator.settings import CoordinatorSettings

# Whole files of `driver:` roots. Nothing is received of a call without the secret.
_MESSAGE_BYTES = 1 << 30

# Of state servers, of the tasks of their executors, and of proxies.
_CONNECTIONS = 16_384

_OPTIONS = (
    EXCLUSIVE_PORT_OPTION,
    ("grpc.max_receive_message_length", _MESSAGE_BYTES),
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.max_allowed_incoming_connections", _CONNECTIONS),
    ("grpc.max_send_message_length", -1),
)


class CoordinatorPort:
    """A gRPC server on a port of its own: bound when it is made, answering once it is started."""

    def __init__(
        self, service: coordinator_pb2_grpc.CoordinatorServicer, settings: CoordinatorSettings
    ) -> None:
        """Raises `InvalidRequestError` if no port of the setting is free, or if other machines
        would reach it in clear text."""
        tls = ServerTls.of(settings.tls)
        check_listener(
            settings.host,
            what="coordinator",
            encrypted=tls is not None,
            authenticated=None,
            insecure=settings.insecure,
        )
        self._workers = ThreadPoolExecutor(
            settings.workers, thread_name_prefix="queryable-state-rpc"
        )
        self._server = grpc.server(
            self._workers,
            interceptors=[BlockingSignatureInterceptor(SignatureCheck(settings.secret))],
            options=_OPTIONS,
        )
        coordinator_pb2_grpc.add_CoordinatorServicer_to_server(service, self._server)
        port = bind(
            port_adder(self._server, tls),
            PortSpec.parse(settings.ports, SETTING_PREFIX + "coordinator_ports"),
            settings.host,
            what="coordinator",
        )
        self.address = join_address(advertised_host(settings.host, settings.advertised_host), port)
        """HOST:PORT for state servers and proxies."""

    def start(self) -> None:
        """Answers from now on."""
        self._server.start()

    def close(self) -> None:
        """Answers no more; the calls under way have a moment."""
        self._server.stop(grace=1.0).wait()

    def release(self) -> None:
        """Lets the threads go, once nothing is asked any more."""
        self._workers.shutdown()
