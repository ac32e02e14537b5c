"""Interface of a task to the owner of its state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.internal.v1.backend_pb2 import BeginResponse, StateFetch, StateValues
    from queryable_state.v1.registration_pb2 import StateRegistration
    from queryable_state.wire.changes import Seal


class StateAccess(Protocol):
    """The state of one subtask as one task attempt sees it.

    Call order: `begin` once, `fetch` any number of times, `prepare` at most once. Methods raise
    only `QueryableStateError`, after retries are exhausted.
    """

    def begin(self, states: Sequence[StateRegistration]) -> BeginResponse:
        """Registers the states and pins the version before the batch."""
        ...

    def fetch(self, fetches: Sequence[StateFetch]) -> Sequence[StateValues]:
        """Reads at the pinned version; one result per fetch, in order."""
        ...

    def prepare(self, blocks: Sequence[bytes], seal: Seal) -> None:
        """Stages the changes of the batch atomically."""
        ...


class JointAccess(Protocol):
    """Calls of all operators of one task in shared messages, ahead of their own calls.

    After a joint call each operator makes its own call as always: it is answered at once if the
    joint call succeeded for this operator. A joint call raises nothing.
    """

    def begin(self, states: Sequence[Sequence[StateRegistration] | None]) -> None:
        """Begins the operators, in order, with their states; None: has begun already."""
        ...

    def prepare(self, changes: Sequence[tuple[Sequence[bytes], Seal]]) -> None:
        """Prepares the operators, in order, with their blocks and seals."""
        ...
