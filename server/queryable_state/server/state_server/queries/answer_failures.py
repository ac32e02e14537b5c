"""Keys of a query that could not be read, grouped by reason."""

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
    UnknownStateError,
)

if TYPE_CHECKING:
    from queryable_state.server.state_server.stores.store_table import StateRoute

_TOO_LARGE = -2
_TOO_MANY = -3
_CORRUPT = -4
_NO_SUBTASK = -5


class AnswerFailures:
    """Collects the positions of failed keys by reason. False if no key has failed."""

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
        """Adds a key whose store, at `slot`, is incomplete or not on this server."""
        self._positions.setdefault(slot, []).append(position)

    def add_too_large(self, position: int) -> None:
        """Adds a key whose value does not fit in this answer, but may fit in the next."""
        self.add(position, _TOO_LARGE)

    def add_too_many_records(self, position: int, most: int) -> None:
        """Adds a key with more records than a query may read."""
        self._most_records = most
        self.add(position, _TOO_MANY)

    def add_corrupt(self, position: int, problem: CorruptDataError) -> None:
        """Adds a key whose value cannot be decoded."""
        self._problem = problem
        self.add(position, _CORRUPT)

    def add_no_subtask(self, position: int) -> None:
        """Adds a subtask of another parallelism."""
        self.add(position, _NO_SUBTASK)

    def to_proto(self) -> list[query_pb2.KeyFailure]:
        """Returns the groups as an answer carries them, and counts the failed query."""
        errors = {slot: self._error(slot) for slot in self._positions}
        for reason in {error.reason_name for error in errors.values()}:
            self._route.reads.failed[reason] += 1
        return [
            query_pb2.KeyFailure(indexes=positions, error=errors[slot].to_proto())
            for slot, positions in self._positions.items()
        ]

    def _error(self, slot: int) -> QueryableStateError:
        name = self._route.name
        if slot == NOT_HERE:
            return not_here(self._route, self._server_id, self._placement_version)
        if slot == _NO_SUBTASK:
            # No retry by a proxy can help: the client must locate the state again.
            return UnknownStateError(
                f"the operator of state {name!r} has no subtask with these key groups, because it "
                "runs at another parallelism: locate the state again"
            )
        if slot == _TOO_LARGE:
            return RetryLaterError(
                f"the requested values of state {name!r} do not fit in one answer: "
                "request these keys again, fewer at once",
                reason=Reason.OVERLOADED,
                retry_after_ms=1,
            )
        if slot == _TOO_MANY:
            return LimitExceededError(
                f"state {name!r} has more than {self._most_records} records under this key and "
                "namespace: read single entries, or single windows, instead"
            )
        if slot == _CORRUPT:
            return CorruptDataError(
                f"state {name!r} has a value under this key that server {self._server_id} cannot "
                f"read: {self._problem}"
            )
        return state_lost(self._route, slot)


def not_here(route: StateRoute, server_id: str, placement_version: int) -> PlacementError:
    """Returns the refusal of key groups that other servers own."""
    return PlacementError(
        f"server {server_id} does not own these key groups of state {route.name!r}: ask their "
        "owners, which LocateState names, or a proxy",
        placement_version=placement_version,
    )


def state_lost(route: StateRoute, slot: int) -> StateLostError:
    """Returns the refusal of key groups whose store has lost older state."""
    since = route.subtasks[slot].complete_since_batch
    return StateLostError(
        f"state {route.name!r} written before batch {since} is lost "
        "for these key groups, because its server failed and the job keeps no checkpoints; allow "
        "incomplete answers to read later state, or restart job "
        f"{route.registration.job_id.hex()} from a checkpoint",
        complete_since_batch=since,
    )
