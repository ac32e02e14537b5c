"""Text form of addresses: HOST:PORT, or [HOST]:PORT for IPv6."""

from __future__ import annotations


def host_and_port(address: str) -> tuple[str, int]:
    """The two parts of an address; raises `ValueError` if it has no port."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def join_address(host: str, port: int) -> str:
    """HOST:PORT, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
