"""The current key of a task, to which all its states refer."""

from __future__ import annotations

from typing import NoReturn

from queryable_state.wire.errors import JobError, Reason


class CurrentKey:
    """The slot of the current element's key, shared by a task's states."""

    __slots__ = ("slot",)

    def __init__(self) -> None:
        self.slot = 0


class NoCurrentKeyError(CurrentKey):
    """The current key while no element is being processed; reading `slot` raises JobError."""

    __slots__ = ("_state_name",)

    def __init__(self, state_name: str) -> None:
        self._state_name = state_name

    @property
    def slot(self) -> NoReturn:  # type: ignore[override]
        raise JobError(
            f"state {self._state_name!r} is used without a current key: read and write states "
            "only in process_element",
            reason=Reason.INVALID_REQUEST,
        )
