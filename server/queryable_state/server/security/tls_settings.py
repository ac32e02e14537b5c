"""Settings of TLS, for all ports of a process and its connections to others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from queryable_state.server.config.setting import SettingsGroup, setting
from queryable_state.wire.security.certificates import PemFiles
from queryable_state.wire.security.tls import Tls

if TYPE_CHECKING:
    from queryable_state.wire.security.connector import Connector

TlsMode = Literal["auto", "on", "off"]
TLS_MODES: tuple[TlsMode, ...] = ("auto", "on", "off")

ClientCertificates = Literal["none", "required"]
CLIENT_CERTIFICATES: tuple[ClientCertificates, ...] = ("none", "required")

SETTING = "spark.queryable_state.tls_{0} (--tls-{0})"


@dataclass(frozen=True, kw_only=True)
class TlsSettings(SettingsGroup):
    """TLS of every port: queries, frames, proxies, coordinator and tasks."""

    tls: TlsMode = setting("auto", choices=TLS_MODES)
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

    tls_client_certificates: ClientCertificates = setting("none", choices=CLIENT_CERTIFICATES)
    """`required`: every caller, also a client, must present a certificate that `tls_ca` signed
    (mutual TLS)."""

    tls_server_name: str = ""
    """Name in the certificates of all servers, where they do not name each host; empty: the host of
    each address."""

    def check_relations(self) -> None:
        super().check_relations()
        self.require(
            self.tls != "on" or bool(self.tls_certificate),
            ("tls", "tls_certificate"),
            "TLS needs a certificate: set spark.queryable_state.tls_certificate "
            "(--tls-certificate) to a PEM file on each machine, or tls to off",
        )
        self.require(
            not (self.uses_tls and self.needs_client_certificates) or bool(self.tls_ca),
            ("tls_client_certificates", "tls_ca"),
            "no authority says which certificates are accepted: set spark.queryable_state.tls_ca "
            "(--tls-ca)",
        )

    @property
    def uses_tls(self) -> bool:
        """True if ports and connections use TLS."""
        return self.tls == "on" or (self.tls == "auto" and bool(self.tls_certificate))

    @property
    def needs_client_certificates(self) -> bool:
        """True if every caller must present a certificate."""
        return self.tls_client_certificates == "required"

    @property
    def tls_files(self) -> PemFiles:
        """The files of the servers of this process."""
        return PemFiles(
            certificate=self.tls_certificate, key=self.tls_key, ca=self.tls_ca, setting=SETTING
        )

    @property
    def tls_for_calls(self) -> Tls | None:
        """TLS of the calls of this process to others; None: clear text.

        It presents its certificate if servers ask for one.
        """
        if not self.uses_tls:
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

        return Connector(self.tls_for_calls, setting=SETTING)
