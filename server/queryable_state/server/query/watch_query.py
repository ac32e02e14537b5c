"""Watch request in terms of a store: encoded keys, key groups and a position."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from queryable_state.server.query.scan_query import KeyGroupRun

HEARTBEAT_S = 5.0
"""A watch sends a message at least this often, also while nothing changes."""


@dataclass(frozen=True, kw_only=True)
class WatchQuery:
    """A `WatchKvState` request with encoded keys."""

    state_id: int

    keys: tuple[bytes, ...] = ()
    """Wire keys (key group and encoded key) to watch; empty: every key with the prefix."""

    prefix: bytes = b""
    """Prefix of the encoded keys, without key group; empty: every key."""

    groups: tuple[KeyGroupRun, ...] = ()
    """Without keys: the key groups to watch, ascending."""

    after_batch: int | None = None
    """Changes of later batches; None: of the batches that are committed from now on."""

    after_change: bytes = b""
    """Of the batch `after_batch` + 1 only changes with greater positions."""

    placement_version: int = 0
    """The placement version that a proxy routed by; 0: not from a proxy."""

    every_batch: bool = False
    """True to send the end of every batch, also of those without changes."""
