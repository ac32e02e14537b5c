"""Settings of TLS, for all ports of a process and its connections to others."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Literal

from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.security.certificates import PemFiles
from queryable_state.wire.security.tls import Tls

if TYPE_CHECKING:
    from queryable_state.wire.security.connector import Connector

if TYPE_CHECKING:
    from queryable_state.wire.security.connector import Connector

TlsMode = Literal["auto", "on", "off"]
TLS_MODES: tuple[TlsMode, ...] = ("auto", "on", "off")

ClientCertificates = Literal["none", "required"]
CLIENT_CERTIFICATES: tuple[ClientCertificates, ...] = ("none", "required")

SETTING = "spark.queryable_state.tls_{0} (--tls-{0})"


@dataclass(frozen=True, kw_only=True)
class TlsSettings:
    """TLS of every port: queries, frames, proxies, coordinator and tasks."""

    tls: TlsMode = "auto"
    """`on`: every port and every connection uses TLS 1.2 or newer; `off`: none does; `auto`: on if
    `tls_certificate` is set."""

    tls_certificate: str = ""
    """PEM file on each machine: the certificate of its servers, then the intermediate ones. All
    PEM files are read again when they change."""

    tls_key: str = ""
    """PEM file with the key of the certificate, not encrypted; empty: it is in the same file."""

    tls_ca: str = ""
    """PEM file with the authorities that signed the certificates of the other side; empty: those of
    the system."""

    tls_client_certificates: ClientCertificates = "none"
    """`required`: every caller, also a client, must present a certificate that `tls_ca` signed
    (mutual TLS)."""

    tls_server_name: str = ""
    """Name in the certificates of all servers, where they do not name each host; empty: the host of
    each address."""

    def __post_init__(self) -> None:
        for name, choices in (("tls", TLS_MODES), ("tls_client_certificates", CLIENT_CERTIFICATES)):
            if getattr(self, name) not in choices:
                raise InvalidRequestError(
                    f"{name} is {getattr(self, name)!r}: choose one of {', '.join(choices)}"
                )
        if self.tls == "on" and not self.tls_certificate:
            raise InvalidRequestError(
                "tls is on without a certificate: set spark.queryable_state.tls_certificate "
                "(--tls-certificate) to a PEM file on each machine, or tls to off"
            )
        if self.is_on and self.needs_client_certificates and not self.tls_ca:
            raise InvalidRequestError(
                "tls_client_certificates is required, and no authority says which certificates are "
                "accepted: set spark.queryable_state.tls_ca (--tls-ca)"
            )

    @classmethod
    def of(cls, settings: TlsSettings) -> TlsSettings:
        """The TLS part of settings that inherit it."""
        return TlsSettings(**{each.name: getattr(settings, each.name) for each in fields(cls)})

    @property
    def is_on(self) -> bool:
        """True if ports and connections use TLS."""
        return self.tls == "on" or (self.tls == "auto" and bool(self.tls_certificate))

    @property
    def needs_client_certificates(self) -> bool:
        """True if every caller must present a certificate."""
        return self.tls_client_certificates == "required"

    @property
    def files(self) -> PemFiles:
        """The files of the servers of this process."""
        return PemFiles(
            certificate=self.tls_certificate, key=self.tls_key, ca=self.tls_ca, setting=SETTING
        )

    @property
    def for_calls(self) -> Tls | None:
        """TLS of the calls of this process to others; None: clear text.

        It presents its certificate if servers ask for one.
        """
        if not self.is_on:
            return None
        own = self.needs_client_certificates
        return Tls(
            ca=self.tls_ca,
            certificate=self.tls_certificate if own else "",
            key=self.tls_key if own else "",
            server_name=self.tls_server_name,
        )

    def connector(self) -> Connector:
        """Opens the connections of this process to others.

        Raises `InvalidRequestError` if a file is missing or cannot be used.
        """
        # It imports gRPC, which Spark's workers may import only after their daemon has forked them.
        from queryable_state.wire.security.connector import Connector

        return Connector(self.for_calls, setting=SETTING)
