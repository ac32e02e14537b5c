"""Page token of `ScanKvState`: where the next page of a scan begins.

`version 01 | state id (4) | batch (8, signed) | hash of the scan (8) | key | checksum (4)`,
big-endian; the checksum is the low half of the xxh64 of all before it. It detects truncated and
mixed-up tokens. A token needs no secrecy: it holds nothing that a caller may not read.
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
    """The position after one key of a scan."""

    state_id: int
    version: int
    """The batch that the scan reads."""
    scan_hash: int
    """Identifies the range and options of the scan: see `scan_hash_of`."""
    key: bytes
    """The last wire key of the page; in a scan of every window with a namespace behind it."""

    def seal(self) -> bytes:
        """Returns the bytes of the token."""
        body = _HEAD.pack(_FORMAT, self.state_id, self.version, self.scan_hash) + self.key
        return body + _checksum(body)

    @classmethod
    def unseal(cls, token: bytes) -> Self:
        """Parses a token; raises `InvalidRequestError` if the bytes are not one."""
        body = token[: -_CHECKSUM.size]
        # A wire key has at least a key group.
        if len(body) < _HEAD.size + 2 or _checksum(body) != token[-_CHECKSUM.size :]:
            raise InvalidRequestError(
                f"page token {token[:40].hex()} ({len(token)} bytes) is not intact: pass the token "
                "of the last page unchanged, or scan from the start"
            )
        form, state_id, version, scan_hash = _HEAD.unpack_from(body)
        if form != _FORMAT:
            raise InvalidRequestError(
                f"the page token has format {form}, and this server reads format {_FORMAT}: "
                "scan from the start"
            )
        return cls(state_id, version, scan_hash, body[_HEAD.size :])


def scan_hash_of(query: ScanQuery) -> int:
    """Returns a hash of what the scan selects; limits and values-or-keys do not count."""
    end = b"\x00" if query.end is None else b"\x01" + query.end
    texts = (query.start, end, query.namespace)
    flags = _RANGE.pack(
        query.first_key_group, query.last_key_group, query.consistency, query.allow_incomplete
    )
    return xxh64_intdigest(flags + b"".join(_LENGTH.pack(len(each)) + each for each in texts))


def _checksum(body: bytes) -> bytes:
    return _CHECKSUM.pack(xxh64_intdigest(body) & 0xFFFFFFFF)
