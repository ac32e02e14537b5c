"""Keys that verify JWTs: a JWKS or a PEM, from a file or a URL."""

from __future__ import annotations

import asyncio
import json
import logging
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from queryable_state.wire.errors import InvalidRequestError, RetryLaterError

if TYPE_CHECKING:
    from collections.abc import Callable
    from http.client import HTTPMessage

_log = logging.getLogger(__name__)

_TIMEOUT_S = 5.0
_MOST_BYTES = 1024 * 1024

# Minimum time between two fetches; a forged `kid` causes no more.
_PAUSE_S = 30.0
# Keys are fetched again after this time, so that the issuer can withdraw one.
_MOST_AGE_S = 600.0

_LOCAL_HOSTS = ("localhost", "127.0.0.1", "::1")
_FAMILIES = {"RS": "RSA", "PS": "RSA", "ES": "EC", "Ed": "OKP", "HS": "oct"}
_LEAST_RSA_BITS = 2048
_LEAST_SECRET_BYTES = 32


@dataclass(frozen=True)
class JwtKey:
    """One key."""

    key_id: str
    """Empty: it has none."""
    family: str
    """RSA, EC, OKP or oct."""
    algorithm: str
    """The only algorithm it is for; empty: every one of the family."""
    key: Any


class JwtKeys:
    """The current keys of one location. `refresh` replaces them at a bounded rate.

    Only a file may have keys for HMAC: whoever can read such a key can sign tokens.
    """

    def __init__(
        self,
        location: str,
        *,
        on_change: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`on_change` is called on the event loop after a fetch brought other keys than before."""
        self.location = location
        self.is_url = "://" in location
        if self.is_url:
            _check_url(location)
        self._clock = clock
        self._on_change = on_change
        self._keys: tuple[JwtKey, ...] = ()
        self._fetched_at_s = -_PAUSE_S
        self._begun_at_s = -_PAUSE_S
        self._fetching: asyncio.Task[None] | None = None
        self.problem = "they were not fetched yet"
        """Why there are no keys; empty: there are."""

    def load(self) -> None:
        """Reads a file; raises `InvalidRequestError` if it is not usable. Blocking."""
        self._keys = parse_keys(self._read(), self.location, secrets=not self.is_url)
        self.problem = ""

    def find(self, key_id: str, algorithm: str) -> list[JwtKey]:
        """The keys that may have made a signature; empty: none is known."""
        family = _FAMILIES.get(algorithm[:2])
        return [
            key
            for key in self._keys
            if key.family == family
            and key.algorithm in ("", algorithm)
            and (not key_id or key.key_id in ("", key_id))
        ]

    @property
    def is_old(self) -> bool:
        """True if the keys of a URL should be fetched again."""
        return self.is_url and self._clock() - self._fetched_at_s >= _MOST_AGE_S

    def may_refresh(self) -> bool:
        """True if a fetch is allowed now, or one is running."""
        return self.is_url and (
            self._fetching is not None or self._clock() - self._begun_at_s >= _PAUSE_S
        )

    async def refresh(self) -> None:
        """Fetches the keys on a thread, unless that was done lately.

        A failure leaves the old ones. Concurrent calls share one fetch. Raises `RetryLaterError`
        if there are no keys at all.
        """
        if self._fetching is None and self.may_refresh():
            self._begun_at_s = self._clock()
            self._fetching = asyncio.create_task(self._fetch())
        if self._fetching is not None:
            await asyncio.wait([self._fetching])
        if not self._keys:
            raise RetryLaterError(
                "the keys of the tokens' issuer cannot be fetched now: the log of the server has "
                "the reason",
                retry_after_ms=1000,
            )

    async def aclose(self) -> None:
        """Waits for a running fetch, at most its timeout. Idempotent."""
        if self._fetching is not None:
            await asyncio.wait([self._fetching])

    async def _fetch(self) -> None:
        try:
            keys = await asyncio.to_thread(
                lambda: parse_keys(self._read(), self.location, secrets=False)
            )
        except Exception as problem:  # noqa: BLE001 - whatever the URL answers, the keys stay
            self.problem = str(problem) or repr(problem)
            _log.warning(
                "cannot fetch the keys of JWTs from %s (spark.queryable_state.jwt_keys): %s; %s",
                self.location,
                self.problem,
                "the older keys stay valid" if self._keys else "no JWT is accepted",
            )
        else:
            self.problem = ""
            self._fetched_at_s = self._clock()
            if keys != self._keys:
                self._keys = keys
                self._on_change()
        finally:
            self._fetching = None

    def _read(self) -> bytes:
        if not self.is_url:
            try:
                return Path(self.location).read_bytes()
            except OSError as problem:
                raise InvalidRequestError(
                    f"cannot read the keys of JWTs in {self.location}: "
                    f"{problem.strerror or problem} (spark.queryable_state.jwt_keys)"
                ) from problem
        opener = urllib.request.build_opener(_NoRedirect)
        with opener.open(self.location, timeout=_TIMEOUT_S) as response:
            data: bytes = response.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise InvalidRequestError(f"{self.location} has more than {_MOST_BYTES:,} bytes")
        return data


def parse_keys(data: bytes, where: str, *, secrets: bool) -> tuple[JwtKey, ...]:
    """The keys of a JWKS or PEM; raises `InvalidRequestError` if there is none.

    `secrets`: whether keys for HMAC are allowed.
    """
    keys = _pem_keys(data, where) if b"-----BEGIN" in data else _jwks_keys(data, where)
    for key in keys:
        if key.family == "RSA" and key.key.key_size < _LEAST_RSA_BITS:
            raise InvalidRequestError(
                f"{where} has an RSA key of {key.key.key_size} bits: use {_LEAST_RSA_BITS} or more"
            )
        if key.family == "oct" and not secrets:
            raise InvalidRequestError(
                f"{where} has a secret key (`kty` oct), which everyone who reads the URL could "
                "sign with: publish public keys, or use a file"
            )
        if key.family == "oct" and len(key.key) < _LEAST_SECRET_BYTES:
            raise InvalidRequestError(
                f"{where} has a secret key of {len(key.key)} bytes: use {_LEAST_SECRET_BYTES} or "
                "more"
            )
    if not keys:
        raise InvalidRequestError(f"{where} has no usable key")
    return keys


def _pem_keys(data: bytes, where: str) -> tuple[JwtKey, ...]:
    from cryptography import x509
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    if b"PRIVATE KEY" in data:
        raise InvalidRequestError(
            f"{where} has a private key, which only the issuer of the tokens may have: give the "
            "public key"
        )
    try:
        key = (
            x509.load_pem_x509_certificate(data).public_key()
            if b"BEGIN CERTIFICATE" in data
            else load_pem_public_key(data)
        )
    except (ValueError, UnsupportedAlgorithm) as problem:
        raise InvalidRequestError(f"{where} is not a PEM with a public key: {problem}") from problem
    for family, kinds in (
        ("RSA", rsa.RSAPublicKey),
        ("EC", ec.EllipticCurvePublicKey),
        ("OKP", (ed25519.Ed25519PublicKey, ed448.Ed448PublicKey)),
    ):
        if isinstance(key, kinds):
            return (JwtKey("", family, "", key),)
    raise InvalidRequestError(f"{where} has a key that signs no JWT: use RSA, EC or Ed25519")


def _jwks_keys(data: bytes, where: str) -> tuple[JwtKey, ...]:
    import jwt
    from cryptography.exceptions import UnsupportedAlgorithm

    try:
        content = json.loads(data)
        described = content["keys"]
        if not isinstance(described, list):
            raise TypeError("`keys` is no list")
    except (ValueError, TypeError, KeyError, RecursionError) as problem:
        raise InvalidRequestError(f"{where} is neither a JWKS nor a PEM: {problem!r}") from problem
    keys: list[JwtKey] = []
    for each in described:
        # Keys for encryption and of unknown types are not for us.
        if not isinstance(each, dict) or each.get("use", "sig") != "sig":
            continue
        try:
            parsed = jwt.PyJWK(each)
        except (jwt.PyJWTError, ValueError, TypeError, UnsupportedAlgorithm):
            continue
        key_id, algorithm = each.get("kid", ""), each.get("alg", "")
        if isinstance(key_id, str) and isinstance(algorithm, str):
            keys.append(JwtKey(key_id, str(each.get("kty")), algorithm, parsed.key))
    return tuple(keys)


def _check_url(location: str) -> None:
    url = urlsplit(location)
    if url.scheme == "https" or (url.scheme == "http" and url.hostname in _LOCAL_HOSTS):
        return
    raise InvalidRequestError(
        f"spark.queryable_state.jwt_keys is {location!r}: use an https URL, because whoever can "
        "change the answer can sign tokens, or a file"
    )


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect could lead to another scheme or host."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: Any,
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> None:
        raise InvalidRequestError(f"{req.full_url} redirects to {newurl}: set that URL")
