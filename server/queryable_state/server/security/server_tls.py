"""TLS of the ports of one process."""

from __future__ import annotations

import logging
import ssl
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import grpc

from queryable_state.wire.security.certificates import loaded, presenting, trusting
from queryable_state.wire.security.reloaded import Reloaded

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.security.tls_settings import TlsSettings
    from queryable_state.wire.security.certificates import CertificateFacts

_log = logging.getLogger(__name__)

_SOON_S = 14 * 86_400.0


class _Server(NamedTuple):
    configuration: grpc.ServerCertificateConfiguration
    context: ssl.SSLContext
    facts: CertificateFacts


class GrpcPorts(Protocol):
    """The two methods by which every gRPC server takes a port."""

    def add_insecure_port(self, address: str) -> int:
        """Takes HOST:PORT in clear text; returns the port."""
        ...

    def add_secure_port(self, address: str, server_credentials: grpc.ServerCredentials) -> int:
        """Takes HOST:PORT with TLS; returns the port."""
        ...


class ServerTls:
    """Credentials of the gRPC ports, and the `ssl` context of the frame ports.

    New connections use the files as they are then. Files that cannot be used are logged, and the
    ones before stay in use.
    """

    def __init__(self, settings: TlsSettings) -> None:
        """Raises `InvalidRequestError` if a file is missing, cannot be used, or has expired."""
        self._files = settings.tls_files
        self._needs_client_certificates = settings.needs_client_certificates
        self._current = Reloaded(self._files.paths, self._load)

    @classmethod
    def of(cls, settings: TlsSettings) -> ServerTls | None:
        """The TLS of the settings; None if it is off."""
        return cls(settings) if settings.uses_tls else None

    def credentials(self) -> grpc.ServerCredentials:
        """Credentials of one gRPC server."""
        given = self._current.get().configuration

        def newer() -> grpc.ServerCertificateConfiguration | None:
            # Called by gRPC at each handshake, on any of its threads.
            nonlocal given
            newest = self._current.get().configuration
            if newest is given:
                return None
            given = newest
            return newest

        fetcher: Any = newer
        return grpc.dynamic_ssl_server_credentials(given, fetcher, self._needs_client_certificates)

    def context(self) -> ssl.SSLContext:
        """The context of a frame port; each handshake uses the newest files."""
        context = self._context()

        def use_newest(
            connection: ssl.SSLSocket | ssl.SSLObject, _name: str | None, _context: ssl.SSLContext
        ) -> None:
            connection.context = self._current.get().context

        # OpenSSL calls it for every client hello, also for one without a server name.
        context.sni_callback = use_newest
        return context

    def _load(self) -> _Server:
        material = loaded(self._files)
        left_s = material.facts.not_after_s - time.time()
        _log.log(
            logging.WARNING if left_s < _SOON_S else logging.INFO,
            "the certificate %s is for %s and ends in %d days",
            self._files.certificate,
            material.facts.names_text,
            left_s // 86_400,
        )
        return _Server(
            grpc.ssl_server_certificate_configuration(
                [(material.key, material.certificate)],
                material.ca if self._needs_client_certificates else None,
            ),
            self._context(),
            material.facts,
        )

    def _context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        presenting(context, self._files)
        if self._needs_client_certificates:
            context.verify_mode = ssl.CERT_REQUIRED
            trusting(context, Path(self._files.ca).read_bytes(), self._files)
        return context


def port_adder(server: GrpcPorts, tls: ServerTls | None) -> Callable[[str], int]:
    """The function by which a gRPC server takes a port: with TLS unless it is None."""
    if tls is None:
        return server.add_insecure_port
    credentials = tls.credentials()
    return lambda address: server.add_secure_port(address, credentials)
