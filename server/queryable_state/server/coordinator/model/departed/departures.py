"""State servers that were lost or have left, with the subtasks they had."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.wire.keys.key_groups import key_group_range

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.server.coordinator.model.placement import Placement
    from queryable_state.server.coordinator.model.servers import Server
    from queryable_state.v1 import status_pb2

_KEPT = 32


@dataclass(frozen=True, kw_only=True)
class Departure:
    """The end of a server, and the subtasks it owned then."""

    server: Server
    how: status_pb2.ServerStatus.Lease.ValueType
    """LOST, REPLACED or LEFT."""
    at_ms: int
    """Milliseconds since the epoch."""
    renewed_at_ms: int
    """Milliseconds since the epoch of the last renewal of its lease."""
    subtasks: tuple[tuple[bytes, str, int, int, int], ...]
    """Query id, operator uid, index, parallelism, max parallelism."""

    def of_query(self, query_id: bytes) -> list[tuple[bytes, str, int, int, int]]:
        """The subtasks of one query."""
        return [subtask for subtask in self.subtasks if subtask[0] == query_id]


@dataclass(frozen=True, kw_only=True)
class Succession:
    """Where the key groups of a departed server are now."""

    key_groups: int
    unowned: int
    """Key groups whose state no server has open."""
    successors: tuple[str, ...]
    """Ids of the servers that own some of them, sorted."""


class Departures:
    """The newest departures. Not thread-safe: used inside transactions."""

    def __init__(self, placement: Placement) -> None:
        self._placement = placement
        self._departures: deque[Departure] = deque(maxlen=_KEPT)

    def __iter__(self) -> Iterator[Departure]:
        """Every departure, newest first."""
        return iter(self._departures)

    def add(
        self, server: Server, how: status_pb2.ServerStatus.Lease.ValueType, at_ms: int, now_ms: int
    ) -> None:
        """Records a departure, before the server's subtasks are freed.

        `at_ms` counts since the epoch, `now_ms` is the same time on the clock of leases. A server
        that was lost before and is replaced or forgotten now stays one departure.
        """
        known = next((d for d in self._departures if d.server is server), None)
        if known is not None:
            if known.how == how:
                return
            self._departures.remove(known)
        subtasks = tuple(
            (operator.query_id, operator.uid, index, operator.parallelism, operator.max_parallelism)
            for operator in self._placement
            for index in sorted(operator.owned_by(server.server_id))
        )
        self._departures.appendleft(
            Departure(
                server=server,
                how=how,
                at_ms=at_ms if known is None else known.at_ms,
                renewed_at_ms=at_ms - (now_ms - server.renewed_ms),
                subtasks=subtasks if known is None else known.subtasks,
            )
        )

    def returned(self, server: Server) -> None:
        """Forgets the loss of a server that has renewed its lease."""
        known = next((d for d in self._departures if d.server is server), None)
        if known is not None:
            self._departures.remove(known)

    def succession(self, departure: Departure, query_id: bytes | None = None) -> Succession:
        """Where the key groups are now: of one query, or of all."""
        groups = unowned = 0
        successors: set[str] = set()
        subtasks = departure.subtasks if query_id is None else departure.of_query(query_id)
        for query, uid, index, parallelism, max_parallelism in subtasks:
            first, last = key_group_range(index, parallelism, max_parallelism)
            groups += last - first + 1
            operator = self._placement.operator(query, uid)
            if operator is None or operator.parallelism != parallelism:
                # At another parallelism the key groups have other subtasks.
                continue
            owner = self._placement.owner(operator, index)
            if owner is not None and owner is not departure.server:
                successors.add(owner.server_id)
            if owner is None or not operator.subtasks[index].opened:
                unowned += last - first + 1
        return Succession(key_groups=groups, unowned=unowned, successors=tuple(sorted(successors)))
