"""Diagnosis of a connection that fails: whether TLS is the cause, and what to do about it.

gRPC says only that a handshake failed, and one without TLS to a port with TLS only breaks. The
probe connects once more, to learn the cause; it sends no data.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from typing import TYPE_CHECKING, Any

from queryable_state.wire.addresses import host_and_port
from queryable_state.wire.errors import AuthenticationError, InvalidRequestError, Reason
from queryable_state.wire.security.certificates import CertificateFacts

if TYPE_CHECKING:
    from queryable_state.wire.errors import QueryableStateError
    from queryable_state.wire.security.connector import Connector

_TIMEOUT_S = 1.0
# Least time between two probes of one address.
_PAUSE_S = 5.0
# Time for the server's alert about the certificate of this side, after a handshake of TLS 1.3.
_ALERT_S = 0.25

# Codes of X509_verify_cert.
_EXPIRED = (9, 10)
_WRONG_NAME = (62, 64)

# X509_V_FLAG_NO_CHECK_TIME.
_NO_CHECK_TIME = 0x200000

# What OpenSSL says of an answer that is no TLS.
_NO_TLS = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "UNKNOWN_PROTOCOL", "RECORD_LAYER_FAILURE")


def tls_problem(address: str, connector: Connector) -> QueryableStateError | None:
    """Why connections to HOST:PORT fail because of TLS; None: TLS is not the cause.

    Blocks for a few seconds at most. A caller gains nothing by a retry: somebody has to change
    settings or certificates.
    """
    try:
        host, port = host_and_port(address)
        context = connector.probing_context()
        if context is None:
            return _of_clear_text(address, host, port)
        return _of_tls(address, host, port, connector, context)
    except OSError:
        # Nothing listens there, or the network is the cause.
        return None


def _of_clear_text(address: str, host: str, port: int) -> QueryableStateError | None:
    try:
        with _handshake(host, port, _unverified()):
            pass
    except ssl.SSLError as failure:
        if "ALERT" not in (failure.reason or ""):
            return None
    return expects_tls(address)


def expects_tls(address: str) -> InvalidRequestError:
    """The error of a caller without TLS at a port with TLS."""
    return InvalidRequestError(
        f"the server at {address} expects TLS, and this side connects without it: set up TLS "
        "here, too (a client: tls=Tls(...) or --tls; a process of the application: "
        "spark.queryable_state.tls_certificate)",
        reason=Reason.PROTOCOL_MISMATCH,
    )


def _of_tls(
    address: str, host: str, port: int, connector: Connector, context: ssl.SSLContext
) -> QueryableStateError | None:
    name = connector.server_name(host) or host
    try:
        with _handshake(host, port, context, name) as connection:
            connection.settimeout(_ALERT_S)
            with contextlib.suppress(TimeoutError):
                # A server of gRPC sends settings at once, and says nothing when it refuses.
                if not connection.recv(1):
                    reason = "it closed the connection after the handshake"
                    return AuthenticationError(_refused(address, reason, connector))
        return None
    except ssl.SSLCertVerificationError as failure:
        facts = _facts(host, port, context, name)
        return AuthenticationError(_untrusted(address, name, failure, facts, connector))
    except ssl.SSLError as failure:
        reason = failure.reason or str(failure)
        if any(each in reason for each in _NO_TLS):
            return InvalidRequestError(
                f"the server at {address} does not speak TLS, and this side asks for it: connect "
                "without TLS, or set spark.queryable_state.tls_certificate (--tls-certificate) "
                "for the server",
                reason=Reason.PROTOCOL_MISMATCH,
            )
        if "ALERT" not in reason:
            return None
        return AuthenticationError(_refused(address, reason, connector))


def _untrusted(
    address: str,
    name: str,
    failure: ssl.SSLCertVerificationError,
    facts: CertificateFacts,
    connector: Connector,
) -> str:
    if failure.verify_code in _WRONG_NAME:
        return (
            f"the certificate of the server at {address} is for {facts.names_text}, not for "
            f"{name}: use an address with one of these names, or set the name to expect (a client: "
            "Tls(server_name=...) or --tls-server-name; a process of the application: "
            "spark.queryable_state.tls_server_name)"
        )
    if failure.verify_code in _EXPIRED:
        return (
            f"the certificate of the server at {address} ({facts.names_text}) "
            f"{facts.problem() or 'is not valid now'}: renew it on the server"
        )
    ca = connector.tls.ca if connector.tls is not None else ""
    return (
        f"the certificate of the server at {address} ({facts.names_text}) is not signed by an "
        f"authority of {ca or 'this system'} ({failure.verify_message}): set the file of the "
        "authority that signed it (a client: Tls(ca=...) or --tls-ca; a process of the "
        "application: spark.queryable_state.tls_ca)"
    )


def _refused(address: str, reason: str, connector: Connector) -> str:
    own = connector.tls.certificate if connector.tls is not None else ""
    if not own:
        return (
            f"the server at {address} requires a certificate of its callers ({reason}): set one (a "
            "client: Tls(certificate=..., key=...) or --tls-certificate and --tls-key; a process "
            "of the application: spark.queryable_state.tls_client_certificates=required)"
        )
    return (
        f"the server at {address} does not accept the certificate {own} ({reason}): use one that "
        "is valid and signed by an authority of its spark.queryable_state.tls_ca (--tls-ca)"
    )


def _facts(host: str, port: int, context: ssl.SSLContext, name: str) -> CertificateFacts:
    """The facts of the server's certificate, which may be invalid."""
    with contextlib.suppress(OSError, ValueError):
        with _handshake(host, port, _unverified()) as connection:
            presented = connection.getpeercert(binary_form=True)
        # `ssl` shows the fields of a verified certificate only: trust it to read them.
        context.check_hostname = False
        context.verify_flags = ssl.VerifyFlags(
            context.verify_flags | ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
        )
        context.load_verify_locations(cadata=presented)
        with _handshake(host, port, context, name) as connection:
            return CertificateFacts.of(connection.getpeercert())
    return CertificateFacts()


def _unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    # Servers of gRPC insist on it.
    context.set_alpn_protocols(["h2"])
    return context


@contextlib.contextmanager
def _handshake(host: str, port: int, context: ssl.SSLContext, name: str | None = None) -> Any:
    with (
        socket.create_connection((host, port), _TIMEOUT_S) as connection,
        context.wrap_socket(connection, server_hostname=name) as secured,
    ):
        yield secured


class TlsDiagnosis:
    """Finds out once whether TLS is the cause why a server cannot be reached.

    Only until a call has succeeded: later failures have other causes, or pass.
    """

    def __init__(self, address: str, connector: Connector) -> None:
        self._address = address
        self._connector = connector
        self._next_s = 0.0
        self._problem: QueryableStateError | None = None

    def found(self, error: QueryableStateError) -> bool:
        """True if this error is the problem of TLS, and not what a server answered."""
        return error is self._problem

    def succeeded(self) -> None:
        """Notes that the server was reached."""
        self._next_s = float("inf")

    async def explained(self, error: QueryableStateError) -> QueryableStateError:
        """The problem of TLS, or else the error of the failed call."""
        if not self._is_due(error):
            return error
        self._problem = await asyncio.to_thread(tls_problem, self._address, self._connector)
        return self._problem or error

    def explained_blocking(self, error: QueryableStateError) -> QueryableStateError:
        """The same for blocking calls."""
        if not self._is_due(error):
            return error
        return tls_problem(self._address, self._connector) or error

    def _is_due(self, error: QueryableStateError) -> bool:
        now_s = time.monotonic()
        if error.reason != Reason.UNAVAILABLE or now_s < self._next_s:
            return False
        self._next_s = now_s + _PAUSE_S
        return True
