"""Lifecycles of a subtask's ownership and of a job's run: states, events, legal transitions.

docs/architecture/keys-and-owners.md shows the same tables, and a test compares both.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

_S = TypeVar("_S", bound=Enum)
_E = TypeVar("_E", bound=Enum)


class IllegalTransitionError(RuntimeError):
    """An event that its state does not allow: a defect of the coordinator.

    Raised in production, too, before anything is changed: one failed call does less harm than
    two owners of one key group.
    """


class Lifecycle(Generic[_S, _E]):
    """A table of legal transitions."""

    def __init__(self, noun: str, transitions: Mapping[_S, Mapping[_E, _S]]) -> None:
        self.noun = noun
        self.transitions = transitions

    def after(self, state: _S, event: _E, label: str) -> _S:
        """The state after an event; `label` names the object in IllegalTransitionError."""
        following = self.transitions[state].get(event)
        if following is None:
            raise IllegalTransitionError(
                f"{self.noun} {label} is {state.value}, which does not allow {event.value!r}: "
                "this is a defect of the coordinator, please report it"
            )
        return following


class OwnershipState(Enum):
    """What the coordinator knows of a subtask's owner and its store."""

    UNOWNED = "unowned"
    """No server owns the subtask."""
    ASSIGNED = "assigned"
    """The owner has no open store."""
    RESTORING = "restoring"
    """The owner has a restore plan and may be reading files of the job's root."""
    OPEN = "open"
    """The owner has opened its store."""
    REOPENING = "reopening"
    """The owner opened its store, and has asked for a restore plan again since."""


class OwnershipEvent(Enum):
    """What happens to a subtask's ownership."""

    ASSIGN = "assign"
    """The subtask is given to a server."""
    PLAN_RESTORE = "plan restore"
    """The owner gets a restore plan."""
    END_RESTORE = "end restore"
    """The owner reports that it has loaded its store."""
    OPEN = "open"
    """The coordinator accepts the store that the owner loaded, or created empty."""
    CLOSE = "close"
    """The store is invalid: the owner drops it with its next lease."""
    RELEASE = "release"
    """The owner has left, or was replaced."""


class RunPhase(Enum):
    """What a run of a job may do."""

    STARTED = "started"
    """Spark has started the run; no task has begun a batch."""
    PROCESSING = "processing"
    """The run has begun a batch."""
    REFUSED = "refused"
    """The run may begin and commit no batch any more."""
    FENCED = "fenced"
    """Another driver has taken over the job. Only a newer run leaves this phase."""


class RunEvent(Enum):
    """What happens to a run. A newer run of the job replaces the run object."""

    BEGIN_BATCH = "begin batch"
    REFUSE = "refuse"
    FENCE = "fence"


def _ownership_transitions() -> dict[OwnershipState, dict[OwnershipEvent, OwnershipState]]:
    state, event = OwnershipState, OwnershipEvent
    owned = {event.ASSIGN: state.ASSIGNED, event.RELEASE: state.UNOWNED}
    return {
        state.UNOWNED: {event.ASSIGN: state.ASSIGNED},
        state.ASSIGNED: {
            **owned,
            event.PLAN_RESTORE: state.RESTORING,
            event.END_RESTORE: state.ASSIGNED,
            event.OPEN: state.OPEN,
        },
        state.RESTORING: {
            **owned,
            event.PLAN_RESTORE: state.RESTORING,
            event.END_RESTORE: state.ASSIGNED,
        },
        state.OPEN: {
            **owned,
            event.PLAN_RESTORE: state.REOPENING,
            event.END_RESTORE: state.OPEN,
            event.OPEN: state.OPEN,
            event.CLOSE: state.ASSIGNED,
        },
        state.REOPENING: {
            **owned,
            event.PLAN_RESTORE: state.REOPENING,
            event.END_RESTORE: state.OPEN,
            event.CLOSE: state.RESTORING,
        },
    }


OWNERSHIP = Lifecycle("subtask", _ownership_transitions())

RUN = Lifecycle(
    "run",
    {
        RunPhase.STARTED: {
            RunEvent.BEGIN_BATCH: RunPhase.PROCESSING,
            RunEvent.REFUSE: RunPhase.REFUSED,
            RunEvent.FENCE: RunPhase.FENCED,
        },
        RunPhase.PROCESSING: {
            RunEvent.BEGIN_BATCH: RunPhase.PROCESSING,
            RunEvent.REFUSE: RunPhase.REFUSED,
            RunEvent.FENCE: RunPhase.FENCED,
        },
        RunPhase.REFUSED: {RunEvent.FENCE: RunPhase.FENCED},
        RunPhase.FENCED: {RunEvent.REFUSE: RunPhase.FENCED, RunEvent.FENCE: RunPhase.FENCED},
    },
)
