"""JWTs: which are accepted, and what a forged one costs."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.security.access.issuers import AUDIENCE, ISSUER, Issuer, key_server

from queryable_state.server.security.access.access_rules import JwtRules
from queryable_state.server.security.access.jwt_keys import JwtKeys, parse_keys
from queryable_state.server.security.access.jwt_verifier import (
    JwtRefusedError,
    JwtVerifier,
    UnknownKeyError,
)
from queryable_state.wire.errors import InvalidRequestError, RetryLaterError

if TYPE_CHECKING:
    from pathlib import Path

RULES = JwtRules()
UNKNOWN_CURVE = b"""-----BEGIN PUBLIC KEY-----
MDIwEAYHKoZIzj0CAQYFK4EEAAYDHgAEn0nYHteKKiF8QqcSHSq/P9gZUZb3RA2D
/s0+0Q==
-----END PUBLIC KEY-----
"""
ALICE = "alice"


@pytest.fixture
def issuer() -> Issuer:
    return Issuer()


def verifier(tmp_path: Path, content: bytes) -> JwtVerifier:
    path = tmp_path / "keys"
    path.write_bytes(content)
    keys = JwtKeys(str(path))
    keys.load()
    return JwtVerifier(keys, issuer=ISSUER, audience=AUDIENCE)


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_a_signed_token_names_its_caller(tmp_path: Path, issuer: Issuer, algorithm: str) -> None:
    claims = verifier(tmp_path, issuer.jwks()).verify(
        issuer.token(algorithm, roles=["sre", 7]), RULES
    )
    assert claims.subject == "alice"
    assert claims.roles == {"sre"}
    assert 50 < claims.expires_s - time.time() < 80


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
def test_a_pem_is_a_key_for_tokens_of_any_name(
    tmp_path: Path, issuer: Issuer, algorithm: str
) -> None:
    assert (
        verifier(tmp_path, issuer.pem(algorithm)).verify(issuer.token(algorithm), RULES).subject
        == ALICE
    )


def test_a_token_without_a_key_id_is_tried_with_every_key(tmp_path: Path, issuer: Issuer) -> None:
    assert verifier(tmp_path, issuer.jwks()).verify(issuer.token(kid=""), RULES).subject == ALICE


@pytest.mark.parametrize(
    ("claims", "problem"),
    [
        ({"exp": int(time.time()) - 3600}, "expired"),
        ({"exp": None}, "exp"),
        ({"exp": "tomorrow"}, "not a time"),
        ({"nbf": int(time.time()) + 3600}, "not valid yet"),
        ({"iss": "https://other.test"}, "another issuer"),
        ({"iss": None}, "iss"),
        ({"aud": "other"}, "another audience"),
        ({"aud": None}, "aud"),
        ({"sub": None}, "sub"),
        ({"sub": ""}, "no subject"),
        ({"sub": "x" * 300}, "no subject"),
    ],
)
def test_a_wrong_claim_is_named(
    tmp_path: Path, issuer: Issuer, claims: dict[str, Any], problem: str
) -> None:
    with pytest.raises(JwtRefusedError, match=problem):
        verifier(tmp_path, issuer.jwks()).verify(issuer.token(**claims), RULES)


def test_clocks_may_differ_a_little(tmp_path: Path, issuer: Issuer) -> None:
    now_s = int(time.time())
    token = issuer.token(exp=now_s - 3, nbf=now_s + 3)
    assert verifier(tmp_path, issuer.jwks()).verify(token, RULES).subject == ALICE


def unsigned(algorithm: str) -> str:
    parts = (
        {"alg": algorithm, "kid": "ES256-1"},
        {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": int(time.time()) + 60},
    )
    encoded = [base64.urlsafe_b64encode(json.dumps(p).encode()).rstrip(b"=") for p in parts]
    return b".".join((*encoded, b"")).decode()


@pytest.mark.parametrize("algorithm", ["none", "None", "NONE", ""])
def test_an_unsigned_token_is_never_accepted(
    tmp_path: Path, issuer: Issuer, algorithm: str
) -> None:
    with pytest.raises(JwtRefusedError, match="signed by"):
        verifier(tmp_path, issuer.jwks()).verify(unsigned(algorithm), RULES)


def test_a_public_key_is_no_secret_to_sign_with(tmp_path: Path, issuer: Issuer) -> None:
    """The classic confusion: HMAC with the text of the public key."""
    import hashlib
    import hmac

    head, body, _ = unsigned("HS256").split(".")
    mac = hmac.new(issuer.pem("RS256"), f"{head}.{body}".encode(), hashlib.sha256).digest()
    forged = f"{head}.{body}.{base64.urlsafe_b64encode(mac).decode().rstrip('=')}"
    checked = verifier(tmp_path, issuer.pem("RS256"))
    with pytest.raises(JwtRefusedError, match="HS256"):
        checked.verify(forged, RULES)
    with pytest.raises(UnknownKeyError):
        checked.verify(forged, JwtRules(algorithms=("HS256", "RS256")))


def test_secrets_are_keys_only_if_the_access_file_says_so(tmp_path: Path, issuer: Issuer) -> None:
    checked = verifier(tmp_path, issuer.jwks("HS256"))
    with pytest.raises(JwtRefusedError, match="HS256"):
        checked.verify(issuer.token("HS256"), RULES)
    assert checked.verify(issuer.token("HS256"), JwtRules(algorithms=("HS256",))).subject == ALICE


def test_a_changed_token_is_refused(tmp_path: Path, issuer: Issuer) -> None:
    head, _, mac = issuer.token().split(".")
    body = issuer.token(sub="bob").split(".")[1]
    with pytest.raises(UnknownKeyError, match="signature"):
        verifier(tmp_path, issuer.jwks()).verify(f"{head}.{body}.{mac}", RULES)


@pytest.mark.parametrize("token", ["a.b.c", "..", "eyJ.eyJ.x", "é.é.é", "a" * 9000 + ".b.c"])
def test_garbage_is_refused(tmp_path: Path, issuer: Issuer, token: str) -> None:
    with pytest.raises(JwtRefusedError):
        verifier(tmp_path, issuer.jwks()).verify(token, RULES)


@pytest.mark.parametrize(
    ("claim", "path"),
    [({"roles": "a b"}, "roles"), ({"realm": {"roles": ["a", "b"]}}, "realm.roles")],
)
def test_roles_are_a_list_or_a_text(
    tmp_path: Path, issuer: Issuer, claim: dict[str, Any], path: str
) -> None:
    claims = verifier(tmp_path, issuer.jwks()).verify(
        issuer.token(**claim), JwtRules(roles_claim=path)
    )
    assert claims.roles == {"a", "b"}


def test_unusable_keys_are_refused_at_once(issuer: Issuer) -> None:
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    private = issuer.private["ES256"].private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    short = rsa.generate_private_key(public_exponent=65537, key_size=1024).public_key()
    short_pem = short.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    for content, problem in (
        (private, "private key"),
        (short_pem, "1024 bits"),
        (issuer.jwks("HS256"), "secret key"),
        (b"{}", "neither a JWKS nor a PEM"),
        (b'{"keys": []}', "no usable key"),
        (b"-----BEGIN PUBLIC KEY-----\nx", "not a PEM"),
        (UNKNOWN_CURVE, "not a PEM with a public key"),
        (b'{"keys": ' + b"[" * 100_000, "neither a JWKS nor a PEM"),
        (b'{"keys": ' + b"9" * 5000 + b"}", "neither a JWKS nor a PEM"),
    ):
        with pytest.raises(InvalidRequestError, match=problem):
            parse_keys(content, "keys", secrets=False)


async def test_an_answer_that_is_not_http_leaves_the_older_keys(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def answer(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"not http\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        keys = JwtKeys(f"http://127.0.0.1:{port}/keys")
        with pytest.raises(RetryLaterError, match="cannot be fetched"):
            await keys.refresh()
    assert "not http" in keys.problem
    assert "cannot fetch the keys of JWTs" in caplog.text


@pytest.mark.parametrize("url", ["http://issuer.test/keys", "ftp://localhost/keys", "file:///x"])
def test_keys_come_from_https_alone(url: str) -> None:
    with pytest.raises(InvalidRequestError, match="https"):
        JwtKeys(url)


async def test_a_new_key_is_fetched_when_a_token_names_it_but_not_for_every_forgery(
    issuer: Issuer,
) -> None:
    now_s = 1000.0
    with key_server(issuer.jwks()) as served:
        keys = JwtKeys(served.url, clock=lambda: now_s)
        checked = JwtVerifier(keys, issuer=ISSUER, audience=AUDIENCE)
        await keys.refresh()
        assert checked.verify(issuer.token(), RULES).subject == ALICE
        issuer.rotate()
        served.answer = issuer.jwks()
        for _ in range(20):
            with pytest.raises(UnknownKeyError):
                checked.verify(issuer.token(), RULES)
            assert not keys.may_refresh()
            await keys.refresh()
        assert served.asked == 1
        now_s += 31
        assert keys.may_refresh()
        await keys.refresh()
        assert checked.verify(issuer.token(), RULES).subject == ALICE
        assert served.asked == 2
        assert not keys.is_old
        now_s += 601
        assert keys.is_old


async def test_without_an_answer_the_older_keys_stay(issuer: Issuer) -> None:
    now_s = 1000.0
    with key_server(issuer.jwks()) as served:
        keys = JwtKeys(served.url, clock=lambda: now_s)
        served.answer = b"oops"
        with pytest.raises(RetryLaterError, match="cannot be fetched"):
            await keys.refresh()
        now_s += 31
        served.answer = issuer.jwks()
        await keys.refresh()
        now_s += 31
        served.redirect = "http://127.0.0.1:1/other"
        await keys.refresh()
        assert "redirects" in keys.problem
        assert keys.find("ES256-1", "ES256")
