"""Rules of the access file: tokens, grants and limits."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from queryable_state.server.security.access.grants import Grants

if TYPE_CHECKING:
    from collections.abc import Mapping

    from queryable_state.server.security.access.grants import Grant
    from queryable_state.server.security.admission.limit import Limit

ALGORITHMS = ("RS256", "ES256", "EdDSA")
"""Signatures of JWTs that are accepted unless the access file names others."""


@dataclass(frozen=True, kw_only=True)
class JwtRules:
    """Table `jwt` of the access file."""

    algorithms: tuple[str, ...] = ALGORITHMS
    """Accepted signature algorithms."""

    roles_claim: str = "roles"
    """Claim with the caller's roles, a list or a text with blanks; dots lead into objects."""

    leeway_s: float = 10.0
    """Tolerated difference of the issuer's clock, in seconds."""


@dataclass(frozen=True, kw_only=True)
class AccessRules:
    """The content of an access file."""

    tokens: Mapping[str, str] = field(default_factory=dict)
    """Names of static tokens by digest."""

    anonymous: bool = False
    """True: a call without a token has the caller `anonymous`, instead of being refused."""

    grants: tuple[Grant, ...] = ()
    limits: tuple[Limit, ...] = ()
    jwt: JwtRules = field(default_factory=JwtRules)

    def grants_of(self, caller: str, roles: frozenset[str] = frozenset()) -> Grants:
        """The grants of a caller."""
        return Grants(grant for grant in self.grants if grant.is_for(caller, roles))
