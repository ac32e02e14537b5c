"""One look-up, and how it came about."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from queryable_state.client._reading.info import Role, role_of

if TYPE_CHECKING:
    from queryable_state.client._reading.connection_info import ConnectionInfo
    from queryable_state.client._reading.states import KvState
    from queryable_state.v1 import query_pb2
    from queryable_state.wire.errors import QueryableStateError


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainStep:
    """One thing that was done for a look-up."""

    name: str
    """"locate", "batch", "client to server", "ask owner", "wait", "read", "refuse"."""

    server_id: str
    """Who did it; empty: the client."""

    role: Role
    """What it is to the state; UNKNOWN: the client."""

    begun_us: int
    """Microseconds after the call began, or after the request arrived at that server."""

    took_us: int

    detail: str = ""
    """For people."""

    cache_hit: bool = False
    """It was answered from what was known already."""

    retried: bool = False
    """The attempt failed, and was made again."""

    @classmethod
    def from_proto(cls, step: query_pb2.ExplainStep) -> Self:
        """The step as it came over the wire."""
        return cls(
            name=step.name,
            server_id=step.server_id,
            role=role_of(step.role),
            begun_us=step.begun_us,
            took_us=step.took_us,
            detail=step.detail,
            cache_hit=step.cache_hit,
            retried=step.retried,
        )

    def __str__(self) -> str:
        who = f"{self.role.name.lower()} {self.server_id}" if self.server_id else "client"
        marks = "".join(
            f", {mark}"
            for mark, is_set in (("from cache", self.cache_hit), ("made again", self.retried))
            if is_set
        )
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.name} ({who}) {self.took_us} us{marks}{detail}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Explanation:
    """The answer to a look-up of one key, and how it came about."""

    key: Any

    state: KvState | None
    """What was found; None: it was refused."""

    error: QueryableStateError | None
    """Why it was refused; `UnknownKeyOrNamespaceError` where nothing is stored."""

    state_id: int
    """The coordinator's number of the state."""

    key_group: int

    subtask: int

    operator_uid: str

    owner_id: str
    """Server that owns the key group."""

    owner_address: str

    placement_version: int
    """By which it was routed."""

    steps: tuple[ExplainStep, ...]
    """The client's first; those of servers in the order they were begun."""

    connections: tuple[ConnectionInfo, ...]
    """How look-ups of this client go to each server, the given one first."""

    server_us: int
    """Microseconds from the arrival of the request at the server asked to its answer."""

    total_us: int
    """Microseconds from the call to its answer, in the client."""

    @property
    def hops(self) -> int:
        """Servers that took part."""
        return len({step.server_id for step in self.steps if step.server_id})

    def __str__(self) -> str:
        outcome = repr(self.error) if self.state is None else repr(self.state)
        where = (
            f"key group {self.key_group}, subtask {self.subtask} of {self.operator_uid}, "
            f"owner {self.owner_id} at {self.owner_address}"
        )
        how = "connections: " + "; ".join(map(str, self.connections))
        lines = [f"{self.key!r}: {outcome}", where, how, *(f"  {step}" for step in self.steps)]
        return "\n".join([*lines, f"  in all {self.total_us} us"])
