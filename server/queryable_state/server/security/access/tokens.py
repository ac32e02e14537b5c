"""Static tokens: random texts, of which the access file has only the SHA-256."""

from __future__ import annotations

import hashlib
import re
import secrets

PREFIX = "sha256:"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")

# 256 bits: no digest of such a text can be inverted by trying.
_RANDOM_BYTES = 32


def new_token() -> str:
    """Makes a random token."""
    return f"qst_{secrets.token_urlsafe(_RANDOM_BYTES)}"


def digest_of(token: str) -> str:
    """The hash of a token that the access file holds in its place."""
    return PREFIX + hashlib.sha256(token.encode()).hexdigest()


def is_digest(text: str) -> bool:
    """True for a text of the form of `digest_of`."""
    return bool(_DIGEST.fullmatch(text))
