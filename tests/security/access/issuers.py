"""An issuer of JWTs, its keys, and a server of its JWKS."""

from __future__ import annotations

import base64
import contextlib
import http.server
import json
import threading
import time
from typing import TYPE_CHECKING, Any

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa

if TYPE_CHECKING:
    from collections.abc import Iterator

ISSUER = "https://issuer.test"
AUDIENCE = "queryable-state"
SECRET = b"0123456789abcdef0123456789abcdef"

_RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
_PRIVATE: dict[str, Any] = {
    "RS256": _RSA,
    "PS256": _RSA,
    "ES256": ec.generate_private_key(ec.SECP256R1()),
    "EdDSA": ed25519.Ed25519PrivateKey.generate(),
    "HS256": SECRET,
}


class Issuer:
    """Signs tokens; `rotate` gives it new keys under new names."""

    def __init__(self) -> None:
        self.private = dict(_PRIVATE)
        self.serial = 1

    def rotate(self) -> None:
        self.serial += 1
        self.private["ES256"] = ec.generate_private_key(ec.SECP256R1())

    def token(self, algorithm: str = "ES256", *, kid: str | None = None, **claims: Any) -> str:
        now_s = int(time.time())
        known: dict[str, Any] = {
            "iss": ISSUER,
            "aud": AUDIENCE,
            "sub": "alice",
            "exp": now_s + 60,
        }
        known = {name: value for name, value in (known | claims).items() if value is not None}
        headers = {"kid": f"{algorithm}-{self.serial}" if kid is None else kid}
        if not headers["kid"]:
            headers = {}
        return jwt.encode(known, self.private[algorithm], algorithm, headers=headers)

    def jwks(self, *algorithms: str) -> bytes:
        keys = []
        for algorithm in algorithms or ("RS256", "ES256", "EdDSA"):
            private = self.private[algorithm]
            if algorithm == "HS256":
                key = {"kty": "oct", "k": base64.urlsafe_b64encode(private).decode().rstrip("=")}
            else:
                kind: Any = jwt.get_algorithm_by_name(algorithm)
                key = kind.to_jwk(private.public_key(), as_dict=True)
            keys.append(key | {"kid": f"{algorithm}-{self.serial}", "alg": algorithm, "use": "sig"})
        return json.dumps({"keys": keys}).encode()

    def pem(self, algorithm: str = "ES256") -> bytes:
        public = self.private[algorithm].public_key()
        encoded: bytes = public.public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        )
        return encoded


class KeyServer:
    """What a JWKS URL answers, and how often it was asked."""

    def __init__(self) -> None:
        self.answer = b""
        self.asked = 0
        self.redirect = ""
        self.wait = threading.Event()
        self.wait.set()
        self.url = ""


@contextlib.contextmanager
def key_server(answer: bytes) -> Iterator[KeyServer]:
    keys = KeyServer()
    keys.answer = answer

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            keys.asked += 1
            keys.wait.wait(10)
            self.send_response(302 if keys.redirect else 200)
            if keys.redirect:
                self.send_header("Location", keys.redirect)
            self.end_headers()
            self.wfile.write(keys.answer)

        def log_message(self, *_args: object) -> None:
            """Nothing on stderr."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    keys.url = f"http://127.0.0.1:{server.server_address[1]}/keys"
    try:
        yield keys
    finally:
        keys.wait.set()
        server.shutdown()
        server.server_close()
