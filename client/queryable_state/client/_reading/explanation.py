"""Explanation of one lookup."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from queryable_state.client._notebook.html import Step, explanation_html
from queryable_state.client._reading.info import Role, role_of
from queryable_state.wire.located_state import NOT_HASH_PARTITIONED

if TYPE_CHECKING:
    from queryable_state.client._reading.connection_info import ConnectionInfo
    from queryable_state.client._reading.states import KvState
    from queryable_state.v1 import query_pb2
    from queryable_state.wire.errors import QueryableStateError
    from queryable_state.wire.keys.time_window import TimeWindow


@dataclass(frozen=True, kw_only=True, slots=True)
class ExplainStep:
    """One step of a lookup."""

    name: str
    """"locate", "batch", "client to server", "ask owner", "wait", "read", "refuse"."""

    server_id: str
    """Server that did the step; empty: the client."""

    role: Role
    """Role of that server for the state; UNKNOWN: the client."""

    begun_us: int
    """Microseconds after the call began, or after the request arrived at that server."""

    took_us: int

    detail: str = ""
    """Details for people."""

    cache_hit: bool = False
    """True if the step used a cached result."""

    retried: bool = False
    """True if the attempt failed and was retried."""

    @classmethod
    def from_proto(cls, step: query_pb2.ExplainStep) -> Self:
        """Converts the wire message."""
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
    """Result of a lookup of one key, and the steps that led to it."""

    key: Any

    state: KvState | None
    """The state; None if the lookup failed."""

    error: QueryableStateError | None
    """The error if the lookup failed; `UnknownKeyOrNamespaceError` if nothing is stored."""

    state_id: int
    """The state's number, assigned by the coordinator."""

    window: TimeWindow | None
    """The window of the lookup; None: it names none."""

    key_group: int
    """Key group of the key's hash."""

    asks_all_partitions: bool
    """True if the state is not hash-partitioned: the owner looked the key up in all partitions,
    because Spark may have put it into another one than `key_group`."""

    subtask: int

    operator_uid: str

    owner_id: str
    """Server that owns the key group."""

    owner_address: str

    placement_version: int
    """Version of the placement that routed the lookup."""

    steps: tuple[ExplainStep, ...]
    """The client's steps, then the servers' in the order of their begin."""

    connections: tuple[ConnectionInfo, ...]
    """The client's connections, the given server first."""

    server_us: int
    """Microseconds between request and answer at the server that got the request."""

    total_us: int
    """Microseconds between call and result in the client."""

    @property
    def hops(self) -> int:
        """Number of servers that took part."""
        return len({step.server_id for step in self.steps if step.server_id})

    def __str__(self) -> str:
        steps = (f"  {step}" for step in self.steps)
        return "\n".join([*self._result(), *steps, f"  in all {self.total_us} us"])

    def _repr_html_(self) -> str:
        steps = [Step(str(step), step.begun_us, step.took_us) for step in self.steps]
        return explanation_html(self._result(), steps, self.total_us)

    def _result(self) -> list[str]:
        """The result and where it comes from, in lines."""
        outcome = repr(self.error) if self.state is None else repr(self.state)
        where = (
            f"key group {self.key_group}, subtask {self.subtask} of {self.operator_uid}, "
            f"owner {self.owner_id} at {self.owner_address}"
        )
        how = "connections: " + "; ".join(map(str, self.connections))
        lines = [f"{self.key!r}: {outcome}"]
        if self.window is not None:
            lines.append(f"window: {self.window}")
        if self.state is not None and self.state.info.watermark_ms:
            lines.append(f"watermark: {self.state.info.watermark_ms} ms since the epoch")
        if self.asks_all_partitions:
            lines.append(NOT_HASH_PARTITIONED)
        return [*lines, where, how]
