"""Addresses as they are written: HOST:PORT, [HOST]:PORT where the host is of IPv6."""

from __future__ import annotations


def host_and_port(address: str) -> tuple[str, int]:
    """The two parts of an address; raises `ValueError` where it has no port."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def join_address(host: str, port: int) -> str:
    """HOST:PORT, an IPv6 address in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
