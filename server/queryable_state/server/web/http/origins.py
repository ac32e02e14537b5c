"""Hosts and origins that requests of browsers may name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.web.http.error_answers import refused
from queryable_state.wire.addresses import is_loopback, split_address
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from aiohttp import web

_LONGEST_PREFLIGHT_S = "600"

# Headers that the paths read and a browser asks for: a page with a token resumes a watch by fetch,
# with the last one.
_HEADERS = "Authorization, Content-Type, Last-Event-ID"


class Origins:
    """Rules for the web pages (browser origins) whose requests are answered.

    Without authentication everyone on the machine may ask, also a page of another site in a browser
    there: it must not reach the port under a name of its own (DNS rebinding), nor send a request
    with an effect. Answers can be read by the page itself and by the allowed origins only.
    """

    def __init__(self, allowed: frozenset[str], *, loopback_only: bool) -> None:
        """`loopback_only`: requests must name a loopback host."""
        self._allowed = allowed
        self._loopback_only = loopback_only

    def refusal(self, request: web.BaseRequest) -> web.Response | None:
        """The refusal of a request that its page may not send; None: it may."""
        host = request.headers.get("Host", "")
        if self._loopback_only and not _is_loopback(host):
            return refused(
                403,
                "PERMISSION_DENIED",
                f"this port listens on the loopback address, and the request names host "
                f"{host[:80]!r}: open http://localhost or http://127.0.0.1",
            )
        origin = request.headers.get("Origin")
        if origin is not None and not self._may_ask(request, origin):
            return refused(
                403,
                "PERMISSION_DENIED",
                f"pages of {origin[:80]!r} may not use this server: add the origin to "
                "web_allowed_origins",
            )
        return None

    def headers(self, request: web.BaseRequest) -> dict[str, str]:
        """Headers by which the browser lets an allowed page read the answer."""
        if not self._allowed:
            return {}
        origin = request.headers.get("Origin", "")
        headers = {"Vary": "Origin"}
        if origin in self._allowed:
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Expose-Headers"] = "Retry-After"
            if request.method == "OPTIONS":
                headers["Access-Control-Allow-Methods"] = "GET, POST"
                headers["Access-Control-Allow-Headers"] = _HEADERS
                headers["Access-Control-Max-Age"] = _LONGEST_PREFLIGHT_S
        return headers

    def is_preflight(self, request: web.BaseRequest) -> bool:
        """True for the question of a browser whether an allowed page may ask."""
        return (
            request.method == "OPTIONS"
            and "Access-Control-Request-Method" in request.headers
            and request.headers.get("Origin") in self._allowed
        )

    def _may_ask(self, request: web.BaseRequest, origin: str) -> bool:
        host = origin.partition("://")[2]
        return origin in self._allowed or host == request.headers.get("Host")


def _is_loopback(host: str) -> bool:
    """True for a `Host` header with a loopback name or address."""
    try:
        return is_loopback(split_address(host.lower(), "Host")[0])
    except InvalidRequestError:
        return False
