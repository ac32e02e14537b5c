"""Settings of authentication and authorization."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from queryable_state.wire.errors import InvalidRequestError


@dataclass(frozen=True, kw_only=True)
class AccessSettings:
    """Who may query which state. Authentication is on if `access_file` is set."""

    access_file: str = ""
    """TOML file with tokens, grants and limits, on the machine of each server and proxy; reloaded
    when it changes. Empty: everyone who reaches a query port may read everything."""

    jwt_keys: str = ""
    """File or https URL of a JWKS or a PEM with the public keys of signed tokens (JWT), whose
    grants are in `access_file`; empty: no JWT is accepted."""

    jwt_issuer: str = ""
    """Issuer (`iss`) that a JWT must have; required with `jwt_keys`."""

    jwt_audience: str = ""
    """Audience (`aud`) that a JWT must have; required with `jwt_keys`."""

    insecure: bool = False
    """True: listen beyond the loopback address without TLS or without authentication. Only for
    networks in which everyone may read and change all state."""

    @classmethod
    def of(cls, settings: AccessSettings) -> AccessSettings:
        """These settings alone, of an object that has more; raises as `check`."""
        found = cls(**{each.name: getattr(settings, each.name) for each in dataclasses.fields(cls)})
        found.check()
        return found

    @property
    def authenticates(self) -> bool:
        """True if calls need a token."""
        return bool(self.access_file or self.jwt_keys)

    def check(self) -> None:
        """Raises `InvalidRequestError` for settings that contradict each other."""
        if not self.jwt_keys:
            return
        for name, value in (
            ("access_file", self.access_file),
            ("jwt_issuer", self.jwt_issuer),
            ("jwt_audience", self.jwt_audience),
        ):
            if not value:
                raise InvalidRequestError(
                    f"spark.queryable_state.jwt_keys is set without {_WHY[name]}: set "
                    f"spark.queryable_state.{name} too"
                )


_WHY = {
    "access_file": "the file that grants something to the callers",
    "jwt_issuer": "the issuer of the tokens",
    "jwt_audience": "the audience of the tokens, so tokens for other services would be accepted",
}
