"""Bounds of key ranges in byte order."""

from __future__ import annotations


def prefix_end(prefix: bytes) -> bytes | None:
    """The first key after all keys with this prefix; None if no key follows them."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes((stripped[-1] + 1,)) if stripped else None


def key_after(key: bytes) -> bytes:
    """The smallest key greater than `key`."""
    return key + b"\x00"
