"""State servers of an application, as `list_servers` returns them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.client._status.messages import name_of
from queryable_state.v1 import status_pb2

if TYPE_CHECKING:
    from typing import Self


@dataclass(frozen=True, kw_only=True, slots=True)
class ServerStatus:
    """A state server. Times are milliseconds since the epoch, 0: never."""

    server_id: str
    executor_id: str
    host: str
    query_address: str
    proxy_address: str
    backend_address: str
    pid: int
    log_file: str
    """Path on its machine; empty: it has none of its own."""
    lease: str
    """HELD, EXPIRED, LOST, REPLACED or LEFT."""
    registered_at_ms: int
    renewed_at_ms: int
    renewed_ago_ms: int
    ended_at_ms: int
    staged_bytes: int
    key_groups: int
    """Key groups it owns, of all operators; of a lost server those that it owned."""
    successors: tuple[str, ...]
    """Of a lost server: the servers that took its key groups."""
    refused: int
    """Queries that limits of the access file refused since its start."""
    refused_last_minute: int
    most_refused: str
    """The caller with the most of the last minute; empty: none, or not for this caller to see."""
    age_ms: int
    """The driver does not answer: age of this status. 0: it is current."""

    @classmethod
    def from_proto(cls, message: status_pb2.ServerStatus, age_ms: int) -> Self:
        """Converts the wire message."""
        own = {
            "lease": name_of(status_pb2.ServerStatus.Lease, message.lease),
            "successors": tuple(message.successors),
            "age_ms": age_ms,
        }
        names = [name for name in cls.__slots__ if name not in own]
        return cls(**{name: getattr(message, name) for name in names} | own)
