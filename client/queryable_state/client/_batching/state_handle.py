"""Name, placement and codecs of one state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.wire.state_codecs import StateCodecs

if TYPE_CHECKING:
    from queryable_state.wire.located_state import LocatedState


class StateHandle:
    """A state under the job and name that the caller uses.

    `located` and `codecs` are None until the client has located the state.
    """

    def __init__(self, job: str, state_name: str, *, unpickle: bool) -> None:
        self.job = job
        self.state_name = state_name
        self.located: LocatedState | None = None
        self.codecs: StateCodecs | None = None
        self._unpickle = unpickle

    def place(self, located: LocatedState) -> None:
        """Stores a placement that is not older than the known one.

        The codecs stay the same object while the registration, and the subtasks of operator state,
        do not change.
        """
        before = self.located
        if (
            before is None
            or before.registration != located.registration
            or before.ranges != located.ranges
        ):
            self.codecs = StateCodecs(
                located.registration, unpickle=self._unpickle, ranges=located.ranges
            )
        self.located = located

    def describe(self) -> str:
        """Names the state for error texts."""
        if self.located is not None:
            return self.located.describe()
        return f"state {self.state_name!r}" + (f" of job {self.job!r}" if self.job else "")
