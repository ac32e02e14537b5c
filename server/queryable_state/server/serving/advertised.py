"""Addresses that a process advertises, apart from those on which it listens."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.wire.addresses import (
    is_loopback,
    is_wildcard,
    join_address,
    parse_host,
    split_address,
)
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Mapping

ADVERTISED_HOST_VARIABLE = "QUERYABLE_STATE_ADVERTISED_HOST"
"""Environment variable of a machine: the name or address at which others reach its processes."""

# A documentation address: connecting a datagram socket only chooses the route.
_ANYWHERE = ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1"))


@dataclass(frozen=True, kw_only=True)
class Advertised:
    """Where others reach a listener, if that differs from where it listens."""

    host: str = ""
    """Name or address; empty: that of `advertised_host`."""

    port: int = 0
    """0: the port on which it listens."""

    frame_port: int = 0
    """0: the frame port on which it listens."""

    def address(self, listening_host: str, port: int) -> str:
        """HOST:PORT of a listener for others."""
        return join_address(advertised_host(listening_host, self.host), self.port or port)

    @classmethod
    def parse(cls, text: str, what: str, frame_port: int = 0) -> Advertised:
        """Reads HOST or HOST:PORT; empty: the host of the environment.

        Raises `InvalidRequestError` that names `what`.
        """
        if not text.strip():
            return cls(host=environment_host(), frame_port=frame_port)
        host, port = split_address(text, what)
        return cls(host=require_reachable(host, what), port=port or 0, frame_port=frame_port)


def advertised_host(listening_host: str, configured: str = "") -> str:
    """The configured host, else the one listened on; a name of this machine for all addresses."""
    if configured:
        return configured.strip("[]")
    return machine_host() if is_wildcard(listening_host) else listening_host.strip("[]")


def environment_host(environment: Mapping[str, str] = os.environ) -> str:
    """The host that the environment of this machine gives; empty if it gives none.

    Raises `InvalidRequestError` for what is no host.
    """
    given = environment.get(ADVERTISED_HOST_VARIABLE, "").strip()
    return require_reachable(given, ADVERTISED_HOST_VARIABLE) if given else ""


def require_reachable(host: str, what: str) -> str:
    """Returns the host without brackets; raises `InvalidRequestError` for `0.0.0.0` and `::`."""
    host = parse_host(host, what)
    if is_wildcard(host):
        raise InvalidRequestError(
            f"{what} is {host}, which stands for all addresses of a machine and which nobody can "
            "connect to: use the name or address at which others reach this machine"
        )
    return host


def machine_host() -> str:
    """The name of this machine, or its address if the name leads to the machine itself only."""
    name = socket.gethostname()
    try:
        found = {str(info[4][0]) for info in socket.getaddrinfo(name, None)}
    except OSError:
        found = set()
    if any(not is_loopback(address) for address in found):
        return name
    for family, anywhere in _ANYWHERE:
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((anywhere, 9))
                address = str(probe.getsockname()[0])
        except OSError:
            continue
        if not is_wildcard(address) and not is_loopback(address):
            return address
    return name
