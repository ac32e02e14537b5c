"""The keys a query could not be answered for, in groups of one reason each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.state_server.stores.store_table import NOT_HERE
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    CorruptDataError,
    LimitExceededError,
    PlacementError,
    QueryableStateError,
    Reason,
    RetryLaterError,
    StateLostError,
)

if TYPE_CHECKING:
    from queryable_state.server.state_server.stores.store_table import StateRoute

_TOO_LARGE = -2
_TOO_MANY = -3
_CORRUPT = -4


class AnswerFailures:
    """Gathers positions by what kept them from being read. False while there are none."""

    def __init__(self, route: StateRoute, server_id: str, placement_version: int) -> None:
        self._route = route
        self._server_id = server_id
        self._placement_version = placement_version
        self._positions: dict[int, list[int]] = {}
        self._most_records = 0
        self._problem: CorruptDataError | None = None

    def __bool__(self) -> bool:
        return bool(self._positions)

    def add(self, position: int, slot: int) -> None:
        """A key of the store at `slot`, which is incomplete, or of none here."""
        self._positions.setdefault(slot, []).append(position)

    def add_too_large(self, position: int) -> None:
        """A key whose value does not fit in this answer, but may in the next."""
        self.add(position, _TOO_LARGE)

    def add_too_many_records(self, position: int, most: int) -> None:
        """A key with more records than a query may read."""
        self._most_records = most
        self.add(position, _TOO_MANY)

    def add_corrupt(self, position: int, problem: CorruptDataError) -> None:
        """A key with a value that cannot be read."""
        self._problem = problem
        self.add(position, _CORRUPT)

    def to_proto(self) -> list[query_pb2.KeyFailure]:
        """The groups as they stand in an answer."""
        return [
            query_pb2.KeyFailure(indexes=positions, error=self._error(slot).to_proto())
            for slot, positions in self._positions.items()
        ]

    def _error(self, slot: int) -> QueryableStateError:
        name = self._route.name
        if slot == NOT_HERE:
            return not_here(self._route, self._server_id, self._placement_version)
        if slot == _TOO_LARGE:
            return RetryLaterError(
                f"the values of state {name!r} asked for do not fit in one answer: "
                "ask for these keys again, fewer at once",
                reason=Reason.OVERLOADED,
                retry_after_ms=1,
            )
        if slot == _TOO_MANY:
            return LimitExceededError(
                f"state {name!r} has more than {self._most_records} records under this key and "
                "namespace: read single entries instead"
            )
        if slot == _CORRUPT:
            return CorruptDataError(
                f"state {name!r} has a value under this key that server {self._server_id} cannot "
                f"read: {self._problem}"
            )
        return state_lost(self._route, slot)


def not_here(route: StateRoute, server_id: str, placement_version: int) -> PlacementError:
    """The refusal of key groups that others own."""
    return PlacementError(
        f"server {server_id} does not own these key groups of state {route.name!r}: ask their "
        "owners, which LocateState names, or a proxy",
        placement_version=placement_version,
    )


def state_lost(route: StateRoute, slot: int) -> StateLostError:
    """The refusal of key groups whose store lost older state."""
    since = route.subtasks[slot].complete_since_batch
    return StateLostError(
        f"state {route.name!r} written before batch {since} is lost "
        "for these key groups, because the server that held it is gone; allow incomplete answers "
        "to read what is there since, or restart job "
        f"{route.registration.job_id.hex()} from a checkpoint",
        complete_since_batch=since,
    )
