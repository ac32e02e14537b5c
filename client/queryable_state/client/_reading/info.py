"""Version, role and server of an answer."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.v1 import query_pb2

if TYPE_CHECKING:
    from typing import Self


class Role(enum.IntEnum):
    """Role, for the state, of the server that answered."""

    UNKNOWN = query_pb2.ROLE_UNSPECIFIED
    OWNER = query_pb2.OWNER
    """It answered from the state it owns."""

    PROXY = query_pb2.PROXY
    """It merged the answers of owners."""

    STANDBY = query_pb2.STANDBY
    """It answered from a replica."""

    CHECKPOINT = query_pb2.CHECKPOINT
    """It answered from a checkpoint of a job that is not running."""


def role_of(number: int) -> Role:
    """Converts the wire value; UNKNOWN if this client does not know it."""
    return Role(number) if number in Role._value2member_map_ else Role.UNKNOWN


@dataclass(frozen=True, kw_only=True, slots=True)
class ReadInfo:
    """Batch and server of a read."""

    version: int
    """Batch id the value was read at; -1: before the first."""

    commit_time_ms: int
    """Milliseconds since the epoch at which that batch was committed; 0: not yet."""

    watermark_ms: int
    """Event-time watermark of that batch in milliseconds; 0: none."""

    role: Role
    """Role of the server for the state."""

    server_id: str
    """Id of the server that answered."""

    complete_since_batch: int
    """First batch from which on the answer is complete; 0: all batches."""

    checkpoint: str = ""
    """URI of the checkpoint or savepoint that was read; empty: state of the running job."""

    ttl_ms: int = 0
    """Milliseconds from the last update of a value to its expiry; 0: values do not expire."""

    read_time_ms: int = 0
    """Clock of the server by which values of a state with a TTL were expired, milliseconds since
    the epoch; 0: the state has no TTL."""

    ttl_per_value: bool = False
    """True if each value has the time of its expiry and `ttl_ms` is 0: state of Spark's own
    operators. Values are then expired by the timestamp of the batch, not by `read_time_ms`."""

    timeline: int = 0
    """Timeline of `version`: numbers of batches are comparable within one timeline. A job that
    begins again at an older batch, or from a savepoint, begins another one. 0: not known."""

    @classmethod
    def from_proto(cls, info: query_pb2.ReadInfo) -> Self:
        """Converts the wire message."""
        return cls(
            version=info.version,
            commit_time_ms=info.commit_time_ms,
            watermark_ms=info.watermark_ms,
            role=role_of(info.role),
            server_id=info.server_id,
            complete_since_batch=info.complete_since_batch,
            checkpoint=info.checkpoint,
            ttl_ms=info.ttl_ms,
            read_time_ms=info.read_time_ms,
            ttl_per_value=info.ttl_per_value,
            timeline=info.timeline,
        )
