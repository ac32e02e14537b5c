"""Ports of the driver: the coordinator's and that of its metrics; the file with their secret."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import grpc

from queryable_state.internal.v1 import coordinator_pb2_grpc
from queryable_state.server.metrics.access_thread import AccessThread
from queryable_state.server.metrics.metrics_port import open_metrics_port
from queryable_state.server.metrics.registry import MetricsRegistry
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
    frame_ports,
)
from queryable_state.wire.addresses import join_address

if TYPE_CHECKING:
    from contextlib import ExitStack

    from queryable_state.server.coordinator.settings import CoordinatorSettings
    from queryable_state.server.metrics.collectors.driver_metrics import DriverMetrics


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


_FOLDER_PREFIX = "queryable-state-"
_FILE_NAME = "secret"


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


class DriverMetricsPort:
    """Serves the metrics of one coordinator, if a port is set."""

    def __init__(self, settings: CoordinatorSettings, metrics: DriverMetrics) -> None:
        self._settings = settings
        self.registry = MetricsRegistry()
        self.registry.add(metrics.collect)
        self.address = ""
        """HOST:PORT on which it listens; empty: there is none."""

    def open(self, stack: ExitStack) -> None:
        """Serves until `stack` ends; raises `InvalidRequestError` in protected mode."""
        settings = self._settings
        spec = frame_ports(settings.driver_metrics_ports, SETTING_PREFIX + "driver_metrics_ports")
        if spec is None:
            return
        authorize = None
        if settings.access.authenticates:
            access = AccessThread(settings.access)
            stack.callback(access.close)
            authorize = access.authorize
        port = open_metrics_port(
            self.registry,
            spec,
            settings.host,
            stack,
            tls=ServerTls.of(settings.tls),
            authorize=authorize,
            insecure=settings.insecure,
        )
        self.address = join_address(settings.host, port) if port else ""


class SecretFile:
    """A file that only its owner can read, in a folder of its own.

    Held under `flock` while valid. The next driver of this user removes an unlocked file, which
    a killed driver has left.
    """

    def __init__(self, secret: str) -> None:
        _remove_abandoned()
        self._folder = Path(tempfile.mkdtemp(prefix=_FOLDER_PREFIX))
        self.path = self._folder / _FILE_NAME
        written = self._folder / "new"
        self._descriptor = os.open(written, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        fcntl.flock(self._descriptor, fcntl.LOCK_EX)
        os.write(self._descriptor, secret.encode())
        # Only now it has the name that others look for.
        written.rename(self.path)

    def remove(self) -> None:
        """Removes file and folder; may be repeated."""
        if self._descriptor >= 0:
            shutil.rmtree(self._folder, ignore_errors=True)
            os.close(self._descriptor)
            self._descriptor = -1


def _remove_abandoned() -> None:
    for path in Path(tempfile.gettempdir()).glob(f"{_FOLDER_PREFIX}*/{_FILE_NAME}"):
        try:
            with path.open() as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                path.unlink()
                path.parent.rmdir()
        except OSError:
            # In use, gone, or another user's.
            continue
