"""Base of a task's operator states: the elements of the subtask, fetched at the first access."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.streaming.runtime.states.cached_state import value_codec
from queryable_state.wire.errors import JobError, LimitExceededError, Reason, SerializationError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from queryable_state.streaming.descriptors import StateDescriptor
    from queryable_state.v1.registration_pb2 import StateRegistration
    from queryable_state.wire.changes import ChangeBlockBuilder
    from queryable_state.wire.schema.types import TypeInfo
    from queryable_state.wire.values.value_codec import ValueCodec

MOST_BYTES = 32 * 1024 * 1024
"""Maximum bytes of one operator state of one subtask: a task sends it in one message."""


@dataclass(frozen=True, kw_only=True)
class OperatorStateContext:
    """Access of a task's operator states to the owner of the subtask."""

    where: str
    """Operator, subtask and batch, for error texts."""
    value_bytes: int
    """Maximum bytes of an element."""
    elements: Callable[[int], Sequence[bytes]]
    """Fetches the elements of a state id as of the batch before."""


class TaskOperatorState(ABC):
    """One operator state of one task.

    Call order: `bind` after a begin that registered it; `write` once at the end. A state that is
    used before it is bound calls `register`, which begins the task.
    """

    def __init__(self, descriptor: StateDescriptor, register: Callable[[], None]) -> None:
        self.descriptor = descriptor
        self.state_id = 0
        self._register = register
        self._context: OperatorStateContext | None = None
        self._written = False
        self._stored: Sequence[bytes] | None = None
        """The elements before the batch; None: not fetched."""

    @property
    def is_bound(self) -> bool:
        """True once the state is registered."""
        return self._context is not None

    def bind(self, registration: StateRegistration, context: OperatorStateContext) -> None:
        """Sets the registered state id and types."""
        self.state_id = registration.state_id
        self._context = context
        declared = self.descriptor.value_type
        assert declared is not None
        self._adopt(value_codec(registration.value_types, declared, None))

    def write(self, changes: ChangeBlockBuilder) -> None:
        """Writes the elements if the task has changed them. The state is closed afterwards."""
        if self._written:
            elements = self.elements()
            if elements != self._stored:
                self._check_sizes(elements)
                changes.operator_state(elements)
        self._context = None
        self._register = self._closed

    @abstractmethod
    def elements(self) -> list[bytes]:
        """The current elements as stored bytes."""

    @abstractmethod
    def _adopt(self, codec: ValueCodec) -> None:
        """Sets the codec of the elements' values."""

    def _bound(self) -> OperatorStateContext:
        if self._context is None:
            self._register()
        assert self._context is not None
        return self._context

    def _fetched(self) -> Sequence[bytes]:
        """The elements before the batch."""
        if self._stored is None:
            self._stored = self._bound().elements(self.state_id)
        return self._stored

    def _where(self) -> str:
        return f"{self._bound().where}: operator state {self.descriptor.name!r}"

    def _unfit(self, what: str, info: TypeInfo, problem: SerializationError) -> SerializationError:
        """The error for a value or element that its type cannot take."""
        return SerializationError(
            f"{self._where()}: the {what} cannot be written as {info}: {problem}"
        )

    def _check_sizes(self, elements: Sequence[bytes]) -> None:
        context = self._bound()
        limit = context.value_bytes
        longest = max(map(len, elements), default=0)
        if longest > limit:
            raise LimitExceededError(
                f"{self._where()}: an element has {longest} bytes, but "
                f"spark.queryable_state.value_bytes is {limit}: split it into several elements"
            )
        total = sum(map(len, elements))
        if total > MOST_BYTES:
            raise LimitExceededError(
                f"{self._where()}: it has {total} bytes on this subtask, and {MOST_BYTES} are "
                "allowed, because a batch that changes it writes it as a whole: keep large state "
                "under keys"
            )

    def _closed(self) -> None:
        raise JobError(
            f"operator state {self.descriptor.name!r} is used after snapshot_state: the batch's "
            "state is sealed; use it in initialize_state, open, the elements and snapshot_state",
            reason=Reason.INVALID_REQUEST,
        )
