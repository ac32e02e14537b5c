"""Text form of addresses: HOST:PORT, or [HOST]:PORT for IPv6."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterable

LARGEST_PORT = 65535

_HOST_AND_PORT = re.compile(r"(?:\[([^\[\]]+)\]|([^:\[\]]*))(?::([^:]*))?")
_NAME = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_.-]*[A-Za-z0-9_.])?")
# An address by its form, which no machine has.
_LOOPBACK_AND_PORT = re.compile(r"::1:(\d{2,4})")
_WILDCARDS = ("0.0.0.0", "::")


def host_and_port(address: str) -> tuple[str, int]:
    """The two parts of an address; raises `ValueError` if it has no port."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def join_address(host: str, port: int) -> str:
    """HOST:PORT, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def parse_host(text: str, what: str) -> str:
    """A host name or an IP address, without the brackets of an IPv6 address.

    Raises `InvalidRequestError` that names `what` for other text: a URL, HOST:PORT, blanks.
    """
    host = text.strip()
    _refuse_url(host, what, "localhost")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    if meant := _LOOPBACK_AND_PORT.fullmatch(host):
        raise InvalidRequestError(
            f"{what} {text!r} is an IPv6 address without a port: did you mean [::1]:{meant[1]}?"
        )
    if _is_ip(host):
        return host
    name, colon, port = host.rpartition(":")
    if colon and ":" not in name:
        raise InvalidRequestError(
            f"{what} {text!r} has a port: give the host alone ({name or 'localhost'!r})"
            + (f" and the port as a number ({port})" if port.isdigit() else "")
        )
    if not _NAME.fullmatch(host):
        raise InvalidRequestError(
            f"{what} {text!r} is no host: use a name or an IP address, as in localhost, 10.0.0.7 "
            "or ::1"
        )
    return host


def parse_port(port: object, what: str) -> int:
    """A port to connect to; raises `InvalidRequestError` that names `what` for another value."""
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port <= LARGEST_PORT:
        raise InvalidRequestError(
            f"{what}: {port!r} is not a port to connect to: use a number from 1 to {LARGEST_PORT}"
        )
    return port


def split_address(text: str, what: str) -> tuple[str, int | None]:
    """Host and port of HOST:PORT; of HOST alone, also an IPv6 address, no port.

    Raises `InvalidRequestError` that names `what` and says how to write an address.
    """
    given = text.strip()
    _refuse_url(given, what, "localhost:9069")
    if given.count(":") > 1 and _is_ip(given):
        return parse_host(given, what), None
    match = _HOST_AND_PORT.fullmatch(given)
    if match is None or not (match[1] or match[2]):
        raise InvalidRequestError(
            f"{what} {text!r} is no address: use HOST or HOST:PORT, as in localhost:9069 or "
            "[::1]:9069"
        )
    host = parse_host(match[1] or match[2], what)
    port = match[3]
    if port is None:
        return host, None
    is_number = port.isascii() and port.isdigit()
    return host, parse_port(int(port) if is_number else port, f"{what} {text!r}")


def parse_address(text: str, what: str, default_port: int = 0) -> tuple[str, int]:
    """Host and port of HOST:PORT, or of HOST with a default port.

    Raises `InvalidRequestError` as `split_address` does, and for a missing port without default.
    """
    host, port = split_address(text, what)
    if port is None and not default_port:
        raise InvalidRequestError(
            f"{what} {text!r} has no port: use HOST:PORT, as in {join_address(host, 9069)}"
        )
    return host, port or default_port


def parse_addresses(texts: str | Iterable[str], what: str, default_port: int = 0) -> list[str]:
    """HOST:PORT of each address, each once; a text may have several with commas between.

    Raises `InvalidRequestError` if there is none, and as `parse_address` does.
    """
    if isinstance(texts, str):
        texts = [texts]
    parts = [part for text in texts for part in text.split(",")]
    if not parts:
        raise InvalidRequestError(f"{what} names no address: give at least one HOST:PORT")
    return list(dict.fromkeys(join_address(*parse_address(p, what, default_port)) for p in parts))


def is_wildcard(host: str) -> bool:
    """True for an address that stands for all addresses of a machine."""
    return host.strip("[]") in _WILDCARDS


def is_loopback(host: str) -> bool:
    """True for the names and addresses that only this machine reaches."""
    host = host.strip("[]")
    return host == "localhost" or (_is_ip(host) and ipaddress.ip_address(host).is_loopback)


def _is_ip(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _refuse_url(text: str, what: str, example: str) -> None:
    scheme, separator, rest = text.partition("://")
    if separator:
        rest = rest.split("/")[0] or example
        raise InvalidRequestError(
            f"{what} {text!r} is a URL of {scheme or 'no scheme'}: leave out the scheme and the "
            f"path, as in {rest!r}"
        )
