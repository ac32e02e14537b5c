"""Whose turn it is: the key all states of a task refer to."""

from __future__ import annotations

from typing import NoReturn

from queryable_state.wire.errors import JobError, Reason


class CurrentKey:
    """The slot of the current element's key, shared by a task's states."""

    __slots__ = ("slot",)

    def __init__(self) -> None:
        self.slot = 0


class NoCurrentKeyError(CurrentKey):
    """Stands in where no element is being processed."""

    __slots__ = ("_state_name",)

    def __init__(self, state_name: str) -> None:
        self._state_name = state_name

    @property
    def slot(self) -> NoReturn:  # type: ignore[override]
        raise JobError(
            f"state {self._state_name!r} is read or written where there is no current key: "
            "use it in process_element only",
            reason=Reason.INVALID_REQUEST,
        )
