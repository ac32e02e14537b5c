"""What a task asks of the owner of its state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.internal.v1.backend_pb2 import BeginResponse, StateFetch, StateValues
    from queryable_state.v1.registration_pb2 import StateRegistration
    from queryable_state.wire.changes import Seal


class StateAccess(Protocol):
    """The state of one subtask as one task attempt sees it.

    Call order: `begin` once, `fetch` any number of times, `prepare` at most once.
    Every method may raise `QueryableStateError` and nothing else; what can be
    waited for has been waited for by then.
    """

    def begin(self, states: Sequence[StateRegistration]) -> BeginResponse:
        """Pin the version before the batch."""
        ...

    def fetch(self, fetches: Sequence[StateFetch]) -> Sequence[StateValues]:
        """Read at the pinned version; answers aligned with the fetches."""
        ...

    def prepare(self, blocks: Sequence[bytes], seal: Seal) -> None:
        """Stage the changes of the batch, all of them or none."""
        ...
