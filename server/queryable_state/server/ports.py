"""Ports as people state them: a port, a range, a list; then any free one, always logged."""

from __future__ import annotations

import errno
import logging
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)

# Two of our processes on one port would share its connections at random.
EXCLUSIVE_PORT_OPTION = ("grpc.so_reuseport", 0)


@dataclass(frozen=True)
class PortSpec:
    """Ports to try in order. A 0 stands for any free port."""

    ports: tuple[int, ...]
    text: str

    @classmethod
    def parse(cls, text: str, what: str = "port") -> PortSpec:
        """Reads "9067", "9067-9077", "9067,9070" or a mix; `what` names the setting in errors."""
        ports: list[int] = []
        for part in str(text).split(","):
            first, dash, last = (piece.strip() for piece in part.partition("-"))
            low, high = _port(first, text, what), _port(last if dash else first, text, what)
            if high < low or (dash and low == 0):
                raise InvalidRequestError(
                    f"{what} {text!r}: the range {part.strip()!r} is empty or begins at 0; "
                    "write the lower port first, as in 9067-9077"
                )
            ports.extend(range(low, high + 1))
        return cls(tuple(dict.fromkeys(ports)), str(text))


def _port(piece: str, text: str, what: str) -> int:
    if not (piece.isascii() and piece.isdigit()) or int(piece) > 65535:
        raise InvalidRequestError(
            f"{what} {text!r}: {piece!r} is not a port; "
            "write a port (9067), a range (9067-9077) or a list (9067,9070), each 0 to 65535"
        )
    return int(piece)


def frame_ports(text: str) -> PortSpec | None:
    """The ports of a `frame_ports` setting; None where it is empty."""
    return PortSpec.parse(text, "frame port") if text else None


def join_address(host: str, port: int) -> str:
    """HOST:PORT, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def bind(
    add_port: Callable[[str], int], spec: PortSpec, host: str, *, what: str, strict: bool = False
) -> int:
    """Binds the first free port of `spec` on `host` and returns it.

    `add_port` is a gRPC server's `add_insecure_port`, sync or asyncio, of a server made with
    `EXCLUSIVE_PORT_OPTION`, or fails like it: 0 or `RuntimeError` where a port is taken. Falls
    back to any free port unless `strict`; `what` names the listener in log and errors.
    """
    for port in spec.ports:
        # gRPC complains on the process's stderr about a port it cannot have. Whoever takes the
        # port after this look makes it complain, and fail, all the same.
        bound = 0 if _is_taken(host, port) else _try(add_port, host, port)
        if bound:
            _log.info("%s listens on %s", what, join_address(host, bound))
            return bound
    if strict:
        raise InvalidRequestError(
            f"{what}: no port of {spec.text!r} is free on {host}; free one, "
            "state more ports, or allow any free port by ports_strict = false"
        )
    bound = _try(add_port, host, 0)
    if not bound:
        raise InvalidRequestError(
            f"{what}: cannot listen on {host!r}; set its host to an address of this machine"
        )
    _log.warning(
        "%s: no port of %r is free on %s; listens on %s",
        what,
        spec.text,
        host,
        join_address(host, bound),
    )
    return bound


def _is_taken(host: str, port: int) -> bool:
    """Whether the port is somebody else's, or forbidden to this user, on an address of `host`."""
    if not port:
        return False
    try:
        addresses = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
        )
    except OSError:
        # What is wrong with the host, gRPC finds, too.
        return False
    for family, kind, protocol, _, address in addresses:
        try:
            with socket.socket(family, kind, protocol) as probe:
                # As gRPC does: connections that linger after their listener do not count.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(address)
        except OSError as refusal:
            if refusal.errno in (errno.EADDRINUSE, errno.EACCES):
                return True
    return False


def _try(add_port: Callable[[str], int], host: str, port: int) -> int:
    """The bound port; 0 where it is taken."""
    try:
        return add_port(join_address(host, port))
    except RuntimeError:
        return 0
