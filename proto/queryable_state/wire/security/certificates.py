"""PEM files of certificates and keys, checked before they are used."""

from __future__ import annotations

import ssl
import time
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from queryable_state.wire.errors import InvalidRequestError

# X509_V_FLAG_NO_CHECK_TIME and X509_V_ERR_INVALID_PURPOSE of OpenSSL.
_NO_CHECK_TIME = 0x200000
_INVALID_PURPOSE = 26

_HANDSHAKE_STEPS = 8


@dataclass(frozen=True)
class CertificateFacts:
    """Facts of a certificate that messages name."""

    names: tuple[str, ...] = ()
    """The host names and addresses for which it is valid."""

    not_before_s: float = 0.0
    """Begin of its validity, in seconds since 1970."""

    not_after_s: float = float("inf")
    """End of its validity, in seconds since 1970."""

    @classmethod
    def of(cls, certificate: Any) -> CertificateFacts:
        """The facts of what `SSLSocket.getpeercert` returned; empty ones for an empty dict."""
        if not certificate:
            return cls()
        names = tuple(str(name) for _, name in certificate.get("subjectAltName", ()))
        return cls(
            names,
            ssl.cert_time_to_seconds(certificate["notBefore"]),
            ssl.cert_time_to_seconds(certificate["notAfter"]),
        )

    @property
    def names_text(self) -> str:
        """The names for a message."""
        return ", ".join(self.names[:8]) or "no name"

    def problem(self) -> str:
        """Why it is not valid now; empty: it is."""
        now_s = time.time()
        if now_s > self.not_after_s:
            return f"expired on {_date(self.not_after_s)}"
        if now_s < self.not_before_s:
            return f"is valid from {_date(self.not_before_s)} only; check this machine's clock"
        return ""


@dataclass(frozen=True, kw_only=True)
class PemFiles:
    """Paths of PEM files, with the names of the settings that hold them."""

    certificate: str = ""
    """Certificate of this side, followed by its intermediate certificates; empty: none."""

    key: str = ""
    """Key of the certificate; empty: it is in the same file."""

    ca: str = ""
    """Certificates of the authorities that signed those of the other side; empty: the system's."""

    setting: str = "{0}"
    """Format of the name of a setting, as in `--tls-{0}`."""

    @property
    def paths(self) -> tuple[str, ...]:
        """All files."""
        return tuple(path for path in (self.certificate, self.key, self.ca) if path)


@dataclass(frozen=True)
class PemMaterial:
    """The content of `PemFiles`."""

    certificate: bytes = b""
    key: bytes = field(default=b"", repr=False)
    ca: bytes = b""
    facts: CertificateFacts = CertificateFacts()
    """Facts of the certificate of this side."""


def loaded(files: PemFiles) -> PemMaterial:
    """Reads and checks the files.

    Raises `InvalidRequestError`, which names file and setting, if one is missing or no PEM file,
    the key belongs to another certificate, or the certificate is not valid today.
    """
    ca = _read(files.ca, files.setting.format("ca")) if files.ca else b""
    if files.ca:
        trusting(ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ca, files)
    if not files.certificate:
        if files.key:
            raise InvalidRequestError(
                f"{files.setting.format('key')} is set, and "
                f"{files.setting.format('certificate')} is not: set both"
            )
        return PemMaterial(ca=ca)
    certificate = _read(files.certificate, files.setting.format("certificate"))
    key = _read(files.key, files.setting.format("key")) if files.key else certificate
    presenting(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), files)
    facts = _facts(files)
    if problem := facts.problem():
        raise InvalidRequestError(
            f"the certificate {files.certificate} ({facts.names_text}) {problem}: renew it "
            f"({files.setting.format('certificate')})"
        )
    return PemMaterial(certificate, key, ca, facts)


def presenting(context: ssl.SSLContext, files: PemFiles) -> None:
    """Makes a context present the certificate; raises `InvalidRequestError` if it cannot."""

    def no_password() -> bytes:
        raise InvalidRequestError(
            f"the key {files.key or files.certificate} is encrypted: decrypt it (openssl pkey -in "
            f"KEY -out NEW_KEY), and let only this user read it ({files.setting.format('key')})"
        )

    try:
        context.load_cert_chain(files.certificate, files.key or None, no_password)
    except ssl.SSLError as problem:
        raise InvalidRequestError(_pair_problem(files, problem)) from None
    except OSError as problem:
        raise _unreadable(problem, files.certificate, files.setting.format("certificate")) from None


def trusting(context: ssl.SSLContext, ca: bytes, files: PemFiles) -> None:
    """Makes a context trust the authorities; raises `InvalidRequestError` if there are none."""
    try:
        context.load_verify_locations(cadata=ca.decode("ascii"))
    except (ssl.SSLError, ValueError):
        raise InvalidRequestError(
            f"{files.ca} ({files.setting.format('ca')}) has no certificates in PEM: give the file "
            "of the authority that signed the certificates of the other side"
        ) from None


def _read(path: str, setting: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as problem:
        raise _unreadable(problem, path, setting) from None


def _unreadable(problem: OSError, path: str, setting: str) -> InvalidRequestError:
    return InvalidRequestError(
        f"cannot read {path} ({setting}): {problem.strerror or problem}: every machine on which "
        "this process may run needs the file, readable for its user"
    )


def _pair_problem(files: PemFiles, problem: ssl.SSLError) -> str:
    certificate, key = files.certificate, files.key or files.certificate
    if problem.reason and "MISMATCH" in problem.reason:
        return (
            f"the key {key} ({files.setting.format('key')}) does not belong to the certificate "
            f"{certificate} ({files.setting.format('certificate')}): give the key with which it "
            "was requested"
        )
    for path, part, setting in (
        (certificate, b"CERTIFICATE-----", "certificate"),
        (key, b"PRIVATE KEY-----", "key"),
    ):
        if part not in _read(path, files.setting.format(setting)):
            return f"{path} ({files.setting.format(setting)}) has no {setting} in PEM"
    return (
        f"the certificate {certificate} and the key {key} "
        f"({files.setting.format('certificate')}) cannot be used: {problem.reason or problem}"
    )


def _facts(files: PemFiles) -> CertificateFacts:
    """The facts of a certificate that this side presents.

    Python's `ssl` shows them only after a handshake, so both sides of one run in memory, and the
    side that verifies trusts this certificate alone.
    """
    for verifies_server in (True, False):
        server, client = (
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT),
        )
        client.check_hostname = False
        client.verify_mode = ssl.CERT_NONE
        for context in (server, client):
            presenting(context, files)
        verifying = client if verifies_server else server
        verifying.verify_mode = ssl.CERT_REQUIRED
        verifying.verify_flags = ssl.VerifyFlags(
            verifying.verify_flags | ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
        )
        verifying.load_verify_locations(files.certificate)
        try:
            return CertificateFacts.of(_presented(server, client, verifies_server=verifies_server))
        except ssl.SSLCertVerificationError as problem:
            # A certificate may be for servers only or for clients only.
            if problem.verify_code != _INVALID_PURPOSE:
                break
    return CertificateFacts()


def _presented(
    server: ssl.SSLContext, client: ssl.SSLContext, *, verifies_server: bool
) -> dict[str, Any] | None:
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(_HANDSHAKE_STEPS):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return sides[0 if verifies_server else 1].getpeercert()


def _date(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%d %H:%M UTC")
