"""Execution of one stateful operator in one task, driven by the stage."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, Self, TypeVar

from queryable_state.streaming.functions import UserFunctionError
from queryable_state.streaming.runtime.states.state_spec import where
from queryable_state.streaming.runtime.states.task_states import TaskStates
from queryable_state.streaming.runtime.user_code import described
from queryable_state.wire.errors import InternalError, QueryableStateError

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


_C = TypeVar("_C")
_Context_contra = TypeVar("_Context_contra", contravariant=True)


class Openable(Protocol[_Context_contra]):
    """The hooks of a user function that every task calls."""

    def open(self, runtime_context: _Context_contra) -> None:
        """Called once, before all other hooks."""
        ...

    def close(self) -> None:
        """Called once, after all other hooks."""
        ...


class OpenFunctions:
    """Opens functions in order and closes all of them in reverse order on exit.

    A function whose `open` failed is closed too, because it may hold resources. An error of `close`
    is raised, or added as a note if the task has already failed.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._functions: list[Openable[Any]] = []
        self._opened: list[Openable[Any]] = []

    def close_at_end(self, function: Openable[Any]) -> None:
        """Closes a function on exit, although it may never be opened."""
        if not any(function is known for known in self._functions):
            self._functions.append(function)

    def open(self, function: Openable[_C], context: _C) -> None:
        """Opens a function. An object that several states share is opened once."""
        if any(function is known for known in self._opened):
            return
        self.close_at_end(function)
        self._opened.append(function)
        try:
            function.open(context)
        except QueryableStateError:
            raise
        except Exception as error:
            raise self._failed(function, "open", error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, failure: BaseException | None, trace: object) -> None:
        self.close(failure)

    def close(self, failure: BaseException | None = None) -> None:
        """Closes all open functions; `failure` is the error that ended the task."""
        failed_to_close: UserFunctionError | None = None
        while self._functions:
            function = self._functions.pop()
            try:
                function.close()
            except Exception as error:  # noqa: BLE001 - user code; the first failure is raised
                if failure is None:
                    failure = failed_to_close = self._failed(function, "close", error)
                    failed_to_close.__cause__ = error
                else:
                    failure.add_note(f"{self._where}: close failed too: {described(error)}")
        if failed_to_close is not None:
            raise failed_to_close

    def _failed(self, function: Openable[Any], hook: str, error: Exception) -> UserFunctionError:
        return UserFunctionError(
            f"{self._where}: {hook} failed in {type(function).__name__}: {described(error)}"
        )


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
        metrics = self._metrics()
        if metrics is not None:
            self._changes.seal.user_metrics.extend(metrics.reported())
        self._functions.close()

    def _metrics(self) -> TaskMetrics | None:
        """The metrics of the user's functions; None: there are none."""
        return None

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
