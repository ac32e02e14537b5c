"""Settings of authentication and authorization."""

from __future__ import annotations

from dataclasses import dataclass

from queryable_state.server.config.setting import SettingsGroup


@dataclass(frozen=True, kw_only=True)
class AccessSettings(SettingsGroup):
    """Who may query which state. Authentication is on if `access_file` is set."""

    access_file: str = ""
    """TOML file with tokens, grants and limits, on the machine of each server and proxy, or the
    name of a file of `spark.files`; reloaded when it changes. Empty: everyone who reaches a query
    port may read everything."""

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

    @property
    def authenticates(self) -> bool:
        """True if calls need a token."""
        return bool(self.access_file or self.jwt_keys)

    def check_relations(self) -> None:
        super().check_relations()
        for name, why in _WITH_JWT_KEYS.items():
            self.require(
                not self.jwt_keys or bool(getattr(self, name)),
                ("jwt_keys",),
                f"it needs {why}: set spark.queryable_state.{name} too",
            )


_WITH_JWT_KEYS = {
    "access_file": "the file that grants something to the callers",
    "jwt_issuer": "the issuer of the tokens",
    "jwt_audience": "the audience of the tokens, so tokens for other services would be accepted",
}
