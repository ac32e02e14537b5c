"""Key range of a scan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from queryable_state.client._arguments import MOST_NUMBER
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.keys.key_prefix import key_prefix

if TYPE_CHECKING:
    from queryable_state.v1 import query_pb2
    from queryable_state.wire.keys.key_groups import KeyGroups

ALL: Any = object()
"""No bound."""


@dataclass(frozen=True)
class ScanRange:
    """Keys and limit of a scan."""

    start: Any = ALL
    """First key, inclusive."""

    end: Any = ALL
    """Last key, exclusive."""

    prefix: Any = ALL
    """Beginning of a string or binary key, or first fields of a row or tuple key."""

    limit: int | None = None
    """Maximum number of keys; None: all."""

    page_token: bytes = b""
    """Token of an earlier scan: continue behind its last page; empty: from the start."""

    keys_only: bool = False
    """Keys without their values."""

    allow_newer: bool = False
    """Continue at the newest batch if the batch of the page token is compacted."""

    def __post_init__(self) -> None:
        if self.prefix is not ALL and (self.start is not ALL or self.end is not ALL):
            raise InvalidRequestError("give a prefix, or a start and an end, not both")
        if self.limit is not None and (
            type(self.limit) is not int or not 0 < self.limit <= MOST_NUMBER
        ):
            raise InvalidRequestError(f"limit must be a number of keys from 1: {self.limit!r}")
        if not isinstance(self.page_token, bytes):
            raise InvalidRequestError(
                f"page_token must be the page_token of a scan, as bytes, not {self.page_token!r}"
            )

    def apply_to(self, request: query_pb2.ScanKvStateRequest, keys: KeyGroups) -> None:
        """Writes the range to a request; raises `KeyTypeError` if a bound is not a key."""
        encode = keys.codec.encode
        if self.start is not ALL:
            request.start_key = encode(self.start)
        if self.end is not ALL:
            request.end_key = encode(self.end)
        if self.prefix is not ALL:
            request.prefix_key = key_prefix(self.prefix, keys.key_type)
        request.keys_only = self.keys_only
