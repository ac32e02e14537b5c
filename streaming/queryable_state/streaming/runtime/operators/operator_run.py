"""Execution of one stateful operator in one task, driven by the stage."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, ClassVar, Final, Self

from queryable_state.streaming.runtime.operators.open_functions import OpenFunctions
from queryable_state.streaming.runtime.states.state_spec import where
from queryable_state.streaming.runtime.states.task_states import TaskStates
from queryable_state.wire.errors import InternalError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType
    from typing import TypeAlias

    import pyarrow as pa

    from queryable_state.streaming.runtime.operators.spec import OperatorSpec
    from queryable_state.streaming.runtime.states.access import StateAccess
    from queryable_state.streaming.runtime.states.cached_state import CachedState
    from queryable_state.streaming.runtime.states.state_spec import TaskIdentity
    from queryable_state.streaming.runtime.states.task_states import Changes
    from queryable_state.streaming.stateless.metrics import TaskMetrics

    Output: TypeAlias = tuple[int, pa.RecordBatch]
    """The number of an output and rows of it."""

MAIN: Final = 0
"""Number of the main output. Side output i of the operator has the number i + 1."""


class OperatorRun(ABC):
    """One operator in one task.

    Call order: enter; `open`; `begin`; `fire_timers`; `process` for each chunk of an input;
    `finish`; `encode`; exit, in any case; `prepare`. Outputs are consumed before the next call.
    """

    reads_in_order: ClassVar[bool] = False
    """True if the rows of an input must be sorted by the input's order."""

    def __init__(self, spec: OperatorSpec, task: TaskIdentity, access: StateAccess) -> None:
        self.spec = spec
        self.where = where(spec, task)
        self._task = task
        self._access = access
        self._functions = OpenFunctions(self.where)
        self._owned: TaskStates | None = None
        self._changes: Changes | None = None
        self._metrics: TaskMetrics | None = None
        """The metrics of the user's functions; None: the operator has none."""

    @property
    def owned(self) -> TaskStates:
        """The states of the task, after `open`."""
        assert self._owned is not None
        return self._owned

    def open(self) -> None:
        """Opens the user's functions, which declare the states."""
        self._owned = TaskStates(self.spec, self._task, self._access, self._open())

    def begin(self) -> None:
        """Pins the version before the batch."""
        self.owned.begin()

    @abstractmethod
    def _open(self) -> Sequence[CachedState]:
        """Opens the user's functions; returns the states to register."""

    def fire_timers(self) -> Iterator[Output]:
        """Fires the due timers, before the rows and also in a task without rows."""
        return iter(())

    @abstractmethod
    def process(self, number: int, batch: pa.RecordBatch) -> Iterator[Output]:
        """Processes a chunk of the input with this number."""

    @abstractmethod
    def finish(self) -> Iterator[Output]:
        """Emits what is left, after the last chunk."""

    def encode(self) -> None:
        """Encodes the changes and closes the user's functions, after `finish`."""
        self._changes = self.owned.changes()
        if self._metrics is not None:
            self._changes.seal.user_metrics.extend(self._metrics.reported())
        self._functions.close()

    @property
    def changes(self) -> Changes:
        """The encoded changes, after `encode`."""
        if self._changes is None:
            raise InternalError(f"{self.where}: prepare was called before the changes were encoded")
        return self._changes

    def prepare(self) -> None:
        """Stages the changes."""
        self.owned.prepare(self.changes)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        failure: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Closes the user's functions if `encode` did not."""
        self._functions.close(failure)
