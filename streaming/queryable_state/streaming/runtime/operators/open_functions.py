"""Lifecycle of the user functions of one task."""

from __future__ import annotations

from typing import Any, Protocol, Self, TypeVar

from queryable_state.streaming.functions import UserFunctionError
from queryable_state.streaming.runtime.user_code import described
from queryable_state.wire.errors import QueryableStateError

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
