"""TLS as the caller of a server sets it."""

from __future__ import annotations

from dataclasses import dataclass

from queryable_state.wire.security.certificates import PemFiles


@dataclass(frozen=True, kw_only=True)
class Tls:
    """Connections with TLS 1.2 or newer; the server's certificate is always verified.

    The files are PEM files. They are read again when they change; open connections stay.
    """

    ca: str = ""
    """Certificates of the authorities that signed those of the servers; empty: the system's."""

    certificate: str = ""
    """Certificate of this client, for servers that ask for one (mutual TLS); empty: none."""

    key: str = ""
    """Key of the certificate; empty: it is in the same file."""

    server_name: str = ""
    """Name in the servers' certificates; empty: the host of each address."""

    def files(self, setting: str) -> PemFiles:
        """The files; `setting` is the format of the names of their settings."""
        return PemFiles(certificate=self.certificate, key=self.key, ca=self.ca, setting=setting)
