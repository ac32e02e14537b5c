"""Certificates of a test, made on the spot."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import trustme

from queryable_state.client import Tls
from queryable_state.server.security.tls_settings import TlsSettings

if TYPE_CHECKING:
    from pathlib import Path

HOSTS = ("127.0.0.1", "localhost")


class Authority:
    """An authority that signs certificates, with their files in one folder."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._ca = trustme.CA()
        self.ca = str(folder / "ca.pem")
        self._ca.cert_pem.write_to_path(self.ca)

    def write(self, name: str = "server", *names: str, days: float = 30) -> tuple[str, str]:
        """Writes NAME.pem and NAME.key, over old ones; `days` of validity, negative: expired."""
        now = dt.datetime.now(dt.UTC)
        issued = self._ca.issue_cert(
            *(names or HOSTS),
            not_before=now - dt.timedelta(days=60),
            not_after=now + dt.timedelta(days=days),
        )
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        chain = b"".join(each.bytes() for each in issued.cert_chain_pems)
        for path, content in ((key, issued.private_key_pem.bytes()), (certificate, chain)):
            new = path.with_suffix(".new")
            new.write_bytes(content)
            new.replace(path)
        return str(certificate), str(key)

    def settings(
        self, *names: str, mutual: bool = False, days: float = 30, server_name: str = ""
    ) -> TlsSettings:
        """Settings of servers with a certificate for these names (none: this machine's)."""
        certificate, key = self.write("server", *names, days=days)
        return TlsSettings(
            tls_certificate=certificate,
            tls_key=key,
            tls_ca=self.ca,
            tls_client_certificates="required" if mutual else "none",
            tls_server_name=server_name,
        )

    def client(self, *, own: bool = False, days: float = 30) -> Tls:
        """TLS of a client that trusts this authority; `own`: it has a certificate."""
        if not own:
            return Tls(ca=self.ca)
        certificate, key = self.write("client", "client.example", days=days)
        return Tls(ca=self.ca, certificate=certificate, key=key)
