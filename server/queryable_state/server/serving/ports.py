"""Port settings (a port, a range or a list) and binding of their first free port.

It is an error if none of the configured ports is free. Only a 0 stands for any free port.
"""

from __future__ import annotations

import dataclasses
import errno
import logging
import socket
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.wire.addresses import join_address
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable

_log = logging.getLogger(__name__)

# Without this option two servers on one port would share its connections at random.
EXCLUSIVE_PORT_OPTION = ("grpc.so_reuseport", 0)

SETTING_PREFIX = "spark.queryable_state."
"""Prefix of the Spark settings."""


# IPv4 and IPv6 addresses of one name: a client of `localhost` may try IPv6 first.
_EQUIVALENT_HOSTS = (("0.0.0.0", "::"), ("127.0.0.1", "::1"))


class NoFreePortError(InvalidRequestError):
    """All ports of a setting are taken. A later start may find one of them free."""


@dataclass(frozen=True)
class PortSpec:
    """Ports to try in order. A 0 stands for any free port."""

    ports: tuple[int, ...]
    text: str
    what: str = "port"
    """The setting or flag that names the ports, for log and errors."""
    first: int = 0
    """Place of the port to try first; those before it come last."""

    @classmethod
    def parse(cls, text: str, what: str = "port") -> PortSpec:
        """Reads "9067", "9067-9077", "9067-9167/10" (every tenth), "9067,9070" or a mix.

        `what` names the setting in errors.
        """
        ports: list[int] = []
        for part in str(text).split(","):
            bounds, slash, step = (piece.strip() for piece in part.partition("/"))
            first, dash, last = (piece.strip() for piece in bounds.partition("-"))
            low, high = _port(first, text, what), _port(last if dash else first, text, what)
            by = _port(step, text, what) if slash else 1
            if high < low or (dash and low == 0) or not by or (slash and not dash):
                raise InvalidRequestError(
                    f"{what} {text!r}: the range {part.strip()!r} is empty, begins at 0, or has a "
                    "step without a range; write the lower port first, as in 9067-9077 or "
                    "9067-9167/10"
                )
            ports.extend(range(low, high + 1, by))
        return cls(tuple(dict.fromkeys(ports)), str(text), what)

    @property
    def in_order(self) -> tuple[int, ...]:
        """The ports in the order in which they are tried."""
        return self.ports[self.first :] + self.ports[: self.first]

    def index(self, port: int) -> int:
        """The place of a bound port in the setting; that of the 0 for any free port."""
        return self.ports.index(port if port in self.ports else 0)

    def beginning_at(self, index: int) -> PortSpec:
        """The same ports, tried from this place on; from the first one if there is no such place.

        The listeners of one process begin at the place that its first listener has, so that they
        stay together.
        """
        return dataclasses.replace(self, first=index if index < len(self.ports) else 0)


def _port(piece: str, text: str, what: str) -> int:
    if not (piece.isascii() and piece.isdigit()) or int(piece) > 65535:
        raise InvalidRequestError(
            f"{what} {text!r}: {piece!r} is not a port; "
            "write a port (9067), a range (9067-9077), every tenth of a range (9067-9167/10) or a "
            "list (9067,9070), each 0 to 65535"
        )
    return int(piece)


def frame_ports(text: str, what: str = "frame port") -> PortSpec | None:
    """The ports of a `frame_ports` setting; None if it is empty."""
    return PortSpec.parse(text, what) if text else None


def bind(add_port: Callable[[str], int], spec: PortSpec, host: str, *, what: str) -> int:
    """Binds the first free port of `spec` on `host` and returns it.

    `add_port` is `add_insecure_port` of a gRPC server with `EXCLUSIVE_PORT_OPTION`, or fails
    like it: 0 or `RuntimeError` if a port is taken. `what` names the listener. Raises
    `NoFreePortError` if every port of `spec` is taken. A 0 after other ports is a fallback
    and logged as a WARNING.
    """
    taken: list[int] = []
    host = host.strip("[]")
    if not _is_of_this_machine(host):
        raise InvalidRequestError(
            f"{what}: cannot listen on {host!r}, which is no address of this machine: set its host "
            "to one, or to 0.0.0.0 for all"
        )
    for port in spec.in_order:
        # gRPC writes to stderr when it cannot bind a port: probe first. A process that takes
        # the port in between still makes gRPC fail.
        bound = 0 if _is_taken(host, port) else _try(add_port, host, port)
        if bound and taken and not port:
            _log.warning(
                "%s: port %s is taken on %s: listens on %s instead; free the port, or set %s",
                what,
                _numbers(taken),
                host,
                join_address(host, bound),
                spec.what,
            )
        elif bound:
            _log.info("%s listens on %s", what, join_address(host, bound))
        if bound:
            return bound
        if not port:
            raise InvalidRequestError(
                f"{what}: cannot listen on {host!r}; set its host to an address of this machine"
            )
        taken.append(port)
    raise _none_is_free(spec, host, what)


def require_free(spec: PortSpec, host: str, *, what: str) -> None:
    """Raises as `bind` does if every port of `spec` is taken now; binds none."""
    if all(port and _is_taken(host, port) for port in spec.ports):
        raise _none_is_free(spec, host, what)


def _none_is_free(spec: PortSpec, host: str, what: str) -> NoFreePortError:
    return NoFreePortError(
        f"{what}: {spec.what} is {spec.text!r}, and no port of it is free on {host} (another "
        f"process has it, or this user may not use it; `ss -ltnp` shows who listens). End that "
        f"process, or set another port, or a range: processes of one machine, such as its "
        f"executors, need a port each. {spec.text},0 uses any free port instead"
    )


def _numbers(ports: list[int]) -> str:
    """The first few ports for a log line."""
    return ", ".join(map(str, ports[:4])) + (f" to {ports[-1]}" if len(ports) > 4 else "")


def _is_of_this_machine(host: str) -> bool:
    """False if no listener can have this address, whatever its port."""
    try:
        addresses = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except socket.gaierror:
        return False
    for family, kind, protocol, _, address in addresses:
        try:
            with socket.socket(family, kind, protocol) as probe:
                probe.bind(address)
        except OSError as refusal:
            if refusal.errno not in (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT):
                return True
        else:
            return True
    return False


def _is_taken(host: str, port: int) -> bool:
    """True if another process has the port on an address of `host`, or this user may not use it."""
    if not port:
        return False
    # gRPC binds IPv4 alone if another process has the port on IPv6, and clients of `localhost`
    # would reach that process.
    hosts = next((hosts for hosts in _EQUIVALENT_HOSTS if host in hosts), (host,))
    return any(_is_taken_on(each, port) for each in hosts)


def _is_taken_on(host: str, port: int) -> bool:
    try:
        addresses = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
        )
    except OSError:
        # gRPC reports the wrong host.
        return False
    for family, kind, protocol, _, address in addresses:
        try:
            with socket.socket(family, kind, protocol) as probe:
                # As gRPC does: ignores lingering connections of a closed listener.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    # IPv4 is probed separately.
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind(address)
        except OSError as refusal:
            if refusal.errno in (errno.EADDRINUSE, errno.EACCES):
                return True
    return False


def _try(add_port: Callable[[str], int], host: str, port: int) -> int:
    """Binds a port; returns 0 if it is taken."""
    try:
        return add_port(join_address(host, port))
    except RuntimeError:
        return 0
