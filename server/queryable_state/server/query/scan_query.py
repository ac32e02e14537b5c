"""What a scan asks for, in the terms of a store."""

from __future__ import annotations

from dataclasses import dataclass

from queryable_state.v1 import query_pb2
from queryable_state.wire.store_keys import VOID_NAMESPACE


@dataclass(frozen=True, kw_only=True)
class ScanQuery:
    """A `ScanKvState` request once its keys are encoded and its page token is read."""

    state_id: int

    first_key_group: int
    """Read in their order, each from `start` to `end`."""

    last_key_group: int
    """Inclusive; below `max_parallelism` of the state."""

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
    """The placement a proxy routed by; 0: not from a proxy."""

    deadline_ms: int = 0
    """How long to wait for the version; 0: the server's default."""
