"""Operator state of a job at one version: that of one subtask, or of all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from queryable_state.client._reading.states import MapState
from queryable_state.client._short_repr import short_fields, short_repr

if TYPE_CHECKING:
    from queryable_state.client._reading.info import ReadInfo
    from queryable_state.client._reading.multi_get import KeyResult


@dataclass(frozen=True, kw_only=True, slots=True)
class SubtaskState:
    """The operator state of one subtask."""

    subtask: int
    """Index, from 0."""

    value: Any
    """A list of the elements; a dict of the entries of a broadcast state."""

    info: ReadInfo
    """The batch at which it was read and the server that answered."""

    @classmethod
    def of(cls, result: KeyResult, *, broadcast: bool) -> SubtaskState:
        """Converts the result of a lookup; raises its error. A missing state is empty."""
        if result.error is not None:
            raise result.error.copy()
        assert result.info is not None
        value: Any = {} if broadcast else []
        if isinstance(result.state, MapState):
            value = dict(result.state.items())
        elif result.state is not None:
            value = result.state.get()
        return cls(subtask=result.key, value=value, info=result.info)

    def __repr__(self) -> str:
        return short_fields(self)


class OperatorState(Sequence[SubtaskState]):
    """Operator state as a sequence of `SubtaskState`, ascending by subtask.

    `get()` is the state as a whole. Broadcast state is equal on all subtasks, so only one of them
    is read unless the caller asks for another.
    """

    __slots__ = ("_subtasks", "kind")

    def __init__(self, kind: str, subtasks: Sequence[SubtaskState]) -> None:
        self.kind = kind
        """OPERATOR_LIST, OPERATOR_UNION or BROADCAST."""
        self._subtasks = tuple(subtasks)

    def get(self) -> Any:
        """The elements of all subtasks that were read, in their order, as a new list; a dict of
        the entries of a broadcast state."""
        if self.kind == "BROADCAST":
            return dict(self._subtasks[0].value)
        return [element for each in self._subtasks for element in each.value]

    @property
    def info(self) -> ReadInfo:
        """The answer with the oldest batch; with `one_cut` all are of this batch."""
        return min((each.info for each in self._subtasks), key=lambda info: info.version)

    def __getitem__(self, position: Any) -> Any:
        return self._subtasks[position]

    def __len__(self) -> int:
        return len(self._subtasks)

    def __repr__(self) -> str:
        return f"<OperatorState {self.kind} at batch {self.info.version}: {short_repr(self.get())}>"
