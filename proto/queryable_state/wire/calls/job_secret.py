"""The job's secret as call metadata: added by the caller, checked by the callee."""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING

from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterable

_KEY = "authorization"


def secret_metadata(secret: str) -> tuple[tuple[str, str], ...]:
    """The metadata of every call between the processes of a job.

    Raises `InvalidRequestError` for a secret that metadata cannot carry.
    """
    if not (secret.isascii() and secret.isprintable() and secret and secret == secret.strip()):
        raise InvalidRequestError(
            "the job's secret must be printable ASCII, not empty, and without blanks around it"
        )
    return ((_KEY, f"Bearer {secret}"),)


def carries_secret(metadata: Iterable[tuple[str, str | bytes]] | None, secret: str) -> bool:
    """True if the metadata of a call has the secret; compared in constant time."""
    expected = f"Bearer {secret}".encode()
    return any(
        key == _KEY
        and hmac.compare_digest(value if isinstance(value, bytes) else value.encode(), expected)
        for key, value in metadata or ()
    )
