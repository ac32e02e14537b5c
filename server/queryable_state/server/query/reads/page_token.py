"""Where a scan goes on, sealed: what the caller of `ScanKvState` hands back.

`version 01 | state id (4) | batch (8, signed) | hash of the scan (8) | wire key | checksum (4)`,
big-endian; the checksum is the low half of the xxh64 of all before it. It guards against tokens
that were cut off or mixed up; there is nothing in them that a caller could not ask for.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, NamedTuple, Self

from xxhash import xxh64_intdigest

from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from queryable_state.server.query.scan_query import ScanQuery

_FORMAT = 1
_HEAD = struct.Struct(">BIqQ")
_CHECKSUM = struct.Struct(">I")
_LENGTH = struct.Struct(">I")
_RANGE = struct.Struct(">HHiB")


class PageToken(NamedTuple):
    """The place behind one key of a scan."""

    state_id: int
    version: int
    """The batch the scan is of."""
    scan_hash: int
    """What tells it from scans of other keys, by `scan_hash_of`."""
    key: bytes
    """The last wire key that was answered."""

    def seal(self) -> bytes:
        """The token's bytes."""
        body = _HEAD.pack(_FORMAT, self.state_id, self.version, self.scan_hash) + self.key
        return body + _checksum(body)

    @classmethod
    def unseal(cls, token: bytes) -> Self:
        """Raises `InvalidRequestError` for bytes that are no page token."""
        body = token[: -_CHECKSUM.size]
        # A wire key has its key group at least.
        if len(body) < _HEAD.size + 2 or _checksum(body) != token[-_CHECKSUM.size :]:
            raise InvalidRequestError(
                f"page token {token[:40].hex()} ({len(token)} bytes) is not intact: hand back what "
                "the scan answered as it is, or scan from the start"
            )
        form, state_id, version, scan_hash = _HEAD.unpack_from(body)
        if form != _FORMAT:
            raise InvalidRequestError(
                f"the page token is of version {form}, this server reads version {_FORMAT}: "
                "scan from the start"
            )
        return cls(state_id, version, scan_hash, body[_HEAD.size :])


def scan_hash_of(query: ScanQuery) -> int:
    """Equal for scans of the same keys; how many of them, and with values or not, may differ."""
    end = b"\x00" if query.end is None else b"\x01" + query.end
    texts = (query.start, end, query.namespace)
    flags = _RANGE.pack(
        query.first_key_group, query.last_key_group, query.consistency, query.allow_incomplete
    )
    return xxh64_intdigest(flags + b"".join(_LENGTH.pack(len(each)) + each for each in texts))


def _checksum(body: bytes) -> bytes:
    return _CHECKSUM.pack(xxh64_intdigest(body) & 0xFFFFFFFF)
