"""Labels of jobs and states."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.v1 import registration_pb2

    FindState = Callable[[int], registration_pb2.StateRegistration | None]

JOB_LABELS = ("job_id", "job_name")
STATE_LABELS = (*JOB_LABELS, "state")


class StateLabels(NamedTuple):
    """The values of `STATE_LABELS`; all empty for ids that no state has."""

    job_id: str = ""
    """32 hex digits."""
    job_name: str = ""
    state: str = ""
    """The queryable name, else the state name."""

    @classmethod
    def of(cls, registration: registration_pb2.StateRegistration | None) -> StateLabels:
        """The labels of a state; None: unknown."""
        if registration is None:
            return cls()
        return cls(
            registration.job_id.hex(),
            registration.job_name,
            registration.queryable_name or registration.state_name,
        )
