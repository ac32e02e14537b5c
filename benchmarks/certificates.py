"""Certificates of a run, made on the spot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.security.tls_settings import TlsSettings

if TYPE_CHECKING:
    from pathlib import Path


def certificates(folder: Path) -> TlsSettings:
    """Writes a certificate for this machine (ECDSA, P-256) and its authority into a folder."""
    import trustme

    ca = trustme.CA()
    issued = ca.issue_cert("127.0.0.1", "localhost")
    paths = [str(folder / name) for name in ("server.pem", "server.key", "ca.pem")]
    issued.cert_chain_pems[0].write_to_path(paths[0])
    issued.private_key_pem.write_to_path(paths[1])
    ca.cert_pem.write_to_path(paths[2])
    return TlsSettings(tls_certificate=paths[0], tls_key=paths[1], tls_ca=paths[2])
