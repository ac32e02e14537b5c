"""Operator state of all subtasks of an operator, redistributed when the parallelism changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.storage.operator_states import redistributed
from queryable_state.wire.keys.key_groups import key_group_range, subtask_of
from queryable_state.wire.operator_state import OPERATOR_KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from queryable_state.v1 import registration_pb2


class OperatorLists:
    """The elements of each operator state, by subtask, as of one batch.

    A batch at another parallelism starts from the redistributed lists of the batch before. Its
    subtasks started from the same lists, and no file stores them.
    """

    def __init__(self, states: Mapping[int, registration_pb2.StateRegistration]) -> None:
        self._kinds = {
            state_id: state.kind
            for state_id, state in states.items()
            if state.kind in OPERATOR_KINDS
        }
        self._parallelism = 0
        self._lists: dict[int, dict[int, tuple[bytes, ...]]] = {}

    def __bool__(self) -> bool:
        """True if the operator has operator state."""
        return bool(self._kinds)

    def run_at(self, parallelism: int) -> None:
        """Redistributes the lists to a parallelism; later batches run at it."""
        if parallelism == self._parallelism:
            return
        self._parallelism = parallelism
        self._lists = {
            state_id: {
                index: redistributed(
                    self._kinds[state_id], lists, index=index, parallelism=parallelism
                )
                for index in range(parallelism)
            }
            for state_id, lists in self._lists.items()
        }

    def set(self, state_id: int, index: int, elements: Iterable[bytes]) -> None:
        """Replaces the list of one subtask; ignores an id that is not an operator state."""
        if state_id in self._kinds:
            self._lists.setdefault(state_id, {})[index] = tuple(elements)

    def of(self, index: int) -> dict[int, tuple[bytes, ...]]:
        """The lists of one subtask, by state id."""
        return {state_id: lists[index] for state_id, lists in self._lists.items() if index in lists}

    def copy(self) -> OperatorLists:
        """Returns an independent copy."""
        made = OperatorLists({})
        made._kinds = self._kinds
        made._parallelism = self._parallelism
        made._lists = {state_id: dict(lists) for state_id, lists in self._lists.items()}
        return made


def parallelism_of(ranges: Sequence[tuple[int, int]], max_parallelism: int, likely: int) -> int:
    """Returns the parallelism at which subtasks have these ranges of key groups.

    If several fit, or none, `likely` is preferred.
    """
    fitting = [
        parallelism
        for parallelism in range(1, max_parallelism + 1)
        if all(
            key_group_range(
                subtask_of(first, parallelism, max_parallelism), parallelism, max_parallelism
            )
            == (first, last)
            for first, last in ranges
        )
    ]
    return likely if likely in fitting or not fitting else fitting[0]
