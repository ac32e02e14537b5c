"""Verification of JWTs."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.security.access.access_rules import JwtRules
    from queryable_state.server.security.access.jwt_keys import JwtKeys

_MOST_NAME = 256


@dataclass(frozen=True)
class Claims:
    """The claims of a valid JWT about its caller."""

    subject: str
    roles: frozenset[str]
    expires_s: float
    """Unix time, tolerance included."""


class JwtRefusedError(Exception):
    """A JWT that is not valid; `cause` is one of few texts, the message says more."""

    def __init__(self, cause: str, message: str) -> None:
        super().__init__(message)
        self.cause = cause


class UnknownKeyError(JwtRefusedError):
    """A JWT whose key is not known: the issuer may have a new one."""


class JwtVerifier:
    """Verifies signature, issuer, audience and times. Raises if PyJWT is not installed."""

    def __init__(
        self,
        keys: JwtKeys,
        *,
        issuer: str,
        audience: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        try:
            import jwt
        except ImportError as problem:
            raise InvalidRequestError(
                "spark.queryable_state.jwt_keys needs the package PyJWT: pip install "
                "'spark-queryable-state[server]'"
            ) from problem
        self._jwt: Any = jwt
        self.keys = keys
        self._issuer = issuer
        self._audience = audience
        self._clock = clock

    def verify(self, token: str, rules: JwtRules) -> Claims:
        """The claims of a token.

        Raises `UnknownKeyError` if no known key may have signed it, else `JwtRefusedError`.
        """
        jwt = self._jwt
        try:
            header = jwt.get_unverified_header(token)
        except jwt.PyJWTError as problem:
            raise JwtRefusedError("not a JWT", f"the token is not a JWT: {problem}") from None
        algorithm, key_id = header.get("alg"), header.get("kid", "")
        if algorithm not in rules.algorithms:
            raise JwtRefusedError(
                "algorithm of a JWT",
                f"the JWT is signed by {str(algorithm)[:20]!r}, and the server accepts "
                f"{', '.join(rules.algorithms)}",
            )
        if "crit" in header or not isinstance(key_id, str):
            raise JwtRefusedError("not a JWT", "the header of the JWT is not supported")
        candidates = self.keys.find(key_id, algorithm)
        if not candidates:
            raise UnknownKeyError("key of a JWT", "the key of the JWT is not one of its issuer")
        claims: dict[str, Any] | None = None
        for key in candidates:
            try:
                claims = self._claims(token, key.key, algorithm)
            except jwt.InvalidSignatureError:
                continue
            break
        if claims is None:
            raise UnknownKeyError("signature of a JWT", "the signature of the JWT is not valid")
        return self._checked(claims, rules)

    def _claims(self, token: str, key: Any, algorithm: str) -> dict[str, Any]:
        jwt = self._jwt
        try:
            claims: dict[str, Any] = jwt.decode(
                token,
                key,
                algorithms=[algorithm],
                audience=self._audience,
                issuer=self._issuer,
                # Times are checked below, by this object's clock.
                options={
                    "require": ["exp", "iss", "aud", "sub"],
                    "verify_exp": False,
                    "verify_nbf": False,
                    "verify_iat": False,
                },
            )
        except jwt.InvalidSignatureError:
            raise
        except jwt.InvalidIssuerError:
            raise JwtRefusedError("issuer of a JWT", "the JWT is of another issuer") from None
        except jwt.InvalidAudienceError:
            raise JwtRefusedError(
                "audience of a JWT", "the JWT is for another audience: request one for this service"
            ) from None
        except jwt.PyJWTError as problem:
            raise JwtRefusedError("not a JWT", f"the JWT is not valid: {problem}") from None
        except (ValueError, TypeError) as problem:
            raise JwtRefusedError("not a JWT", f"the JWT is not valid: {problem}") from None
        return claims

    def _checked(self, claims: dict[str, Any], rules: JwtRules) -> Claims:
        now_s = self._clock()
        expires_s = _time(claims, "exp") + rules.leeway_s
        if now_s >= expires_s:
            ago_s = now_s - expires_s + rules.leeway_s
            raise JwtRefusedError(
                "expired JWT", f"the JWT expired {ago_s:.0f} s ago: request a new one"
            )
        if "nbf" in claims and now_s < _time(claims, "nbf") - rules.leeway_s:
            raise JwtRefusedError("early JWT", "the JWT is not valid yet (`nbf`): check the clocks")
        subject = claims["sub"]
        if not isinstance(subject, str) or not 0 < len(subject) <= _MOST_NAME:
            raise JwtRefusedError(
                "subject of a JWT", f"the JWT has no subject of 1 to {_MOST_NAME} characters"
            )
        return Claims(subject, _roles(claims, rules.roles_claim), expires_s)


def _time(claims: dict[str, Any], name: str) -> float:
    value = claims[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < 1e12:
        raise JwtRefusedError("not a JWT", f"the claim `{name}` of the JWT is not a time")
    return float(value)


def _roles(claims: dict[str, Any], path: str) -> frozenset[str]:
    value: Any = claims.get(path)
    if value is None:
        value = claims
        for name in path.split("."):
            value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, str):
        value = value.split()
    return frozenset(filter(_is_text, value)) if isinstance(value, list) else frozenset()


def _is_text(value: object) -> bool:
    return isinstance(value, str)
