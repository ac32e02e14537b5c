"""List of one subtask in a task: a list state or a union list state of the operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.runtime.operator_states.operator_state import TaskOperatorState
from queryable_state.streaming.state import ListState
from queryable_state.wire.errors import SerializationError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.wire.values.value_codec import ValueCodec


class TaskOperatorList(TaskOperatorState, ListState[Any]):
    """Elements in the order in which they were added; held as stored bytes.

    So a read makes new objects, and changing them in place does not change the state.
    """

    _elements: list[bytes] | None = None
    _codec: ValueCodec

    def get(self) -> list[Any]:
        held = self._held()
        return list(map(self._codec.decode, held))

    def add(self, value: Any) -> None:
        self._held().append(self._encoded(value, "add"))
        self._written = True

    def add_all(self, values: Iterable[Any]) -> None:
        held = self._held()
        held += [self._encoded(value, "add_all") for value in values]
        self._written = True

    def update(self, values: Iterable[Any]) -> None:
        self._elements = [self._encoded(value, "update") for value in values]
        self._written = True

    def clear(self) -> None:
        self._bound()
        self._elements = []
        self._written = True

    def is_empty(self) -> bool:
        return not self._held()

    def __len__(self) -> int:
        return len(self._held())

    def elements(self) -> list[bytes]:
        return self._held()

    def _adopt(self, codec: ValueCodec) -> None:
        self._codec = codec

    def _held(self) -> list[bytes]:
        self._bound()
        if self._elements is None:
            self._elements = list(self._fetched())
        return self._elements

    def _encoded(self, value: Any, method: str) -> bytes:
        self._bound()
        if value is None:
            raise SerializationError(
                f"{self._where()}: {method} was called with None, but a list takes no null: omit "
                "the element"
            )
        try:
            return self._codec.encode(value)
        except SerializationError as problem:
            raise self._unfit("element", self._codec.type_info, problem) from problem
