"""What a scan asks for, in the terms of a store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from queryable_state.v1 import query_pb2
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE


class KeyGroupRun(NamedTuple):
    """Key groups that follow each other."""

    first: int
    last: int
    """Inclusive."""


@dataclass(frozen=True, kw_only=True)
class ScanQuery:
    """A `ScanKvState` request once its keys are encoded and its page token is read."""

    state_id: int

    first_key_group: int
    """Read in their order, each from `start` to `end`."""

    last_key_group: int
    """Inclusive; below `max_parallelism` of the state."""

    only: tuple[KeyGroupRun, ...] = ()
    """Of these key groups only those of the runs, ascending; empty: all of them."""

    start: bytes = b""
    """Encoded keys from this one on, without key group; empty: from the first one."""

    end: bytes | None = None
    """Encoded keys before this one, without key group; None: to the last one. A prefix is
    `start` with its `prefix_end`."""

    after: bytes = b""
    """Only what stands behind this wire key (key group and encoded key), whose key group is one
    of those asked for; empty: all."""

    namespace: bytes = VOID_NAMESPACE
    """Encoded namespace of the records."""

    consistency: query_pb2.Consistency.ValueType = query_pb2.COMMITTED

    allow_incomplete: bool = False
    """Also key groups that lost older state; the answer is not complete then."""

    min_version: int = 0
    """As of this batch or later; 0: any."""

    max_staleness_ms: int = 0
    """As of a commit at most this many milliseconds old; 0: any."""

    at_version: int | None = None
    """As of exactly this committed batch; None: the newest one."""

    limit: int = 0
    """At most so many keys; 0: all."""

    keys_only: bool = False
    """Keys without their records."""

    placement_version: int = 0
    """The placement a proxy routed by: the first message says that the version is pinned, and has
    no keys. 0: not from a proxy."""

    page_timeout_ms: int = 0
    """How long the taker waits for the next message; 0: the server's default."""

    @property
    def runs(self) -> tuple[KeyGroupRun, ...]:
        """The key groups asked for."""
        return self.only or (KeyGroupRun(self.first_key_group, self.last_key_group),)

    @property
    def first_open_group(self) -> int:
        """The first key group of which anything may be read."""
        return int.from_bytes(self.after[:2], "big") if self.after else self.first_key_group
