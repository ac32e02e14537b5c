"""Protected mode: no listener beyond the loopback address without TLS and authentication."""

from __future__ import annotations

from queryable_state.wire.addresses import is_loopback
from queryable_state.wire.errors import InvalidRequestError

_PREFIX = "spark.queryable_state."


def check_listener(
    host: str, *, what: str, encrypted: bool, authenticated: bool | None, insecure: bool
) -> None:
    """Raises `InvalidRequestError` if a listener is open to other machines without protection.

    `authenticated`: whether calls need a token; None: a port for parts of the application, whose
    calls are signed. `what` names the listener.
    """
    if insecure or is_loopback(host):
        return
    lacking = []
    if not encrypted:
        lacking.append(
            f"TLS ({_PREFIX}tls_certificate, {_PREFIX}tls_key and {_PREFIX}tls_ca; of a proxy "
            "--tls-certificate, --tls-key and --tls-ca)"
        )
    if authenticated is False:
        lacking.append(f"authentication ({_PREFIX}access_file; of a proxy --access-file)")
    if lacking:
        raise InvalidRequestError(
            f"the {what} would listen on {host or 'all addresses'}, which other machines reach, "
            f"without {' and without '.join(lacking)}: set that, or set {_PREFIX}insecure (of a "
            "proxy --insecure) if everyone in this network may read and change all state, or "
            f"listen on 127.0.0.1 ({_PREFIX}host, --host)"
        )
