"""Token of a client, as the authorization of its calls."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeAlias

from queryable_state.wire.addresses import host_and_port, is_loopback
from queryable_state.wire.errors import InvalidRequestError, Reason

if TYPE_CHECKING:
    from queryable_state.wire.errors import QueryableStateError

_log = logging.getLogger(__name__)

Token: TypeAlias = str | Callable[[], str]


class TokenCredentials:
    """`Credentials` with a token: a fixed one, or what a function returns at each call."""

    def __init__(self, token: Token) -> None:
        """Raises `InvalidRequestError` for a token that no header can carry."""
        self._token = token
        self._last = ""
        if not callable(token):
            self._last = _header(token)

    def header(self, method: str) -> str:
        """The `authorization` of one call; raises what the function raises."""
        if callable(self._token):
            self._last = _header(self._token())
        return self._last

    def corrects(self, error: QueryableStateError) -> bool:
        """True if the function returns another token than the refused one."""
        if error.reason != Reason.UNAUTHENTICATED or not callable(self._token):
            return False
        return _header(self._token()) != self._last


def warn_of_clear_text(addresses: Iterable[str]) -> None:
    """Logs a warning if a token would be sent to another machine without TLS."""
    others = [each for each in addresses if not is_loopback(host_and_port(each)[0])]
    if others:
        _log.warning(
            "the token is sent to %s in clear text, where everyone on the way can read and use it: "
            "pass tls=Tls(...) or tls=True",
            ", ".join(others),
        )


def _header(token: object) -> str:
    if isinstance(token, str):
        text = token.strip()
        if text and text.isascii() and text.isprintable() and " " not in text:
            return f"Bearer {text}"
    raise InvalidRequestError(
        "the token must be a text of printable ASCII characters without blanks, or a function that "
        "returns one"
    )
