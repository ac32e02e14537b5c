"""The `authorization` of a call: gRPC metadata of that key, or the field of a frame hello.

`Bearer <token>` names a client. `Signed <...>` proves that the caller is a process of the
application: it knows the job's secret, which is not part of the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

from queryable_state.wire.errors import AuthenticationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.wire.errors import QueryableStateError

AUTHORIZATION = "authorization"
"""Key of the metadata."""

FRAME_HELLO = "/queryable_state.v1.Frames/Hello"
"""Name for which a frame hello is signed, in place of a gRPC method."""

_MOST_CHARACTERS = 16 * 1024

_BEARER = re.compile(r"bearer +([A-Za-z0-9._~+/-]+=*) *", re.ASCII | re.IGNORECASE)
_SIGNED = re.compile(
    r"Signed ([0-9]{1,5})-([0-9]{1,5}) ([0-9]{1,15}) ([0-9a-f]{16}) ([0-9]{1,18}) ([0-9a-f]{64})",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Bearer:
    """The token of a client."""

    token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Signed:
    """The signature of an internal call; `server.security.SignatureCheck` verifies it."""

    min_version: int
    """Oldest version of the internal protocols that the caller speaks."""

    max_version: int
    """Newest version of the internal protocols that the caller speaks."""

    time_ms: int
    """Wall-clock time of the call."""

    session: str
    """Random; unique to one signer in one process."""

    number: int
    """Number of the call in its session; with `session` the nonce of the call."""

    mac: str = field(repr=False)
    """HMAC-SHA256 in hexadecimal digits."""

    def __str__(self) -> str:
        return (
            f"Signed {self.min_version}-{self.max_version} {self.time_ms} {self.session} "
            f"{self.number} {self.mac}"
        )


Authorization: TypeAlias = Bearer | Signed


class Credentials(Protocol):
    """Source of the `authorization` of each call of one caller to one server."""

    def header(self, method: str) -> str:
        """The `authorization` for one call of a method, named `/package.Service/Method`."""
        ...

    def corrects(self, error: QueryableStateError) -> bool:
        """Learns from a refusal; True if the call may succeed with the next `header`.

        A caller repeats a call at most once for it.
        """
        ...


def parse_authorization(header: str | bytes) -> Authorization | None:
    """The content of an `authorization`; None if it is empty.

    Raises `AuthenticationError` if it has another form. The text has no part of the header, which
    may be a misplaced secret.
    """
    text = header.decode("ascii", "replace") if isinstance(header, bytes) else header
    if not text:
        return None
    if len(text) <= _MOST_CHARACTERS:
        if signed := _SIGNED.fullmatch(text):
            oldest, newest, time_ms, session, number, mac = signed.groups()
            return Signed(int(oldest), int(newest), int(time_ms), session, int(number), mac)
        if bearer := _BEARER.fullmatch(text):
            return Bearer(bearer[1])
    raise AuthenticationError(
        "the authorization of the call cannot be read: send `Bearer <token>`, with a token of at "
        "most 16,000 letters, digits and -._~+/="
    )


def authorization_of(metadata: Iterable[tuple[str, str | bytes]] | None) -> str | bytes:
    """The `authorization` in the metadata of a call; empty if there is none."""
    return next((value for key, value in metadata or () if key == AUTHORIZATION), "")


def call_metadata(
    credentials: Credentials | None, method: str
) -> tuple[tuple[str, str], ...] | None:
    """The metadata of one call; None without credentials."""
    return None if credentials is None else ((AUTHORIZATION, credentials.header(method)),)
