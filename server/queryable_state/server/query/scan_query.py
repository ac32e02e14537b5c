"""Scan request in terms of a store: key groups, encoded keys and a version."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from queryable_state.v1 import query_pb2
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE, namespace_of


class KeyGroupRun(NamedTuple):
    """Consecutive key groups."""

    first: int
    last: int
    """Inclusive."""


def position_of(scanned: query_pb2.ScannedKey) -> bytes:
    """The position behind an item of a scan: its wire key, in a scan of every window with the
    namespace of its window. As `ScanQuery.after`."""
    if not scanned.HasField("window"):
        return scanned.key
    return scanned.key + namespace_of(scanned.window)


@dataclass(frozen=True, kw_only=True)
class ScanQuery:
    """A `ScanKvState` request with encoded keys and a parsed page token."""

    state_id: int

    first_key_group: int
    """First key group to read. Key groups are read in order, each from `start` to `end`."""

    last_key_group: int
    """Inclusive; below `max_parallelism` of the state."""

    only: tuple[KeyGroupRun, ...] = ()
    """Restricts the key groups to these runs, ascending; empty: no restriction."""

    start: bytes = b""
    """First encoded key, without key group; empty: from the first key."""

    end: bytes | None = None
    """First encoded key behind the range, without key group; None: to the last key. A prefix is
    `start` with its `prefix_end`."""

    after: bytes = b""
    """Continues after this wire key (key group and encoded key), whose key group is within the
    range; with a namespace behind it, after that window of the key. Empty: from the start."""

    namespace: bytes = VOID_NAMESPACE
    """Encoded namespace of the records; empty: every window, or for timers any namespace."""

    consistency: query_pb2.Consistency.ValueType = query_pb2.COMMITTED

    allow_incomplete: bool = False
    """True to read key groups that have lost older state; the answer is then not complete."""

    min_version: int = 0
    """Oldest acceptable batch; 0: any."""

    max_staleness_ms: int = 0
    """Oldest acceptable commit, in milliseconds before now; 0: any."""

    at_version: int | None = None
    """The committed batch to read; None: the newest one."""

    timeline: int = 0
    """Timeline of `min_version` or `at_version`; 0: not known."""

    limit: int = 0
    """Maximum number of keys; 0: no limit."""

    keys_only: bool = False
    """True to read keys without their records."""

    placement_version: int = 0
    """The placement version that a proxy routed by; the first message then only confirms the
    pinned version and has no keys. 0: not from a proxy."""

    page_timeout_ms: int = 0
    """Longest time between two messages, in milliseconds; 0: the server's default."""

    @property
    def runs(self) -> tuple[KeyGroupRun, ...]:
        """The key groups to read."""
        return self.only or (KeyGroupRun(self.first_key_group, self.last_key_group),)

    @property
    def first_open_group(self) -> int:
        """The first key group that is not read completely."""
        return int.from_bytes(self.after[:2], "big") if self.after else self.first_key_group
