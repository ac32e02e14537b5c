"""Lifecycle of the user functions of one task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from queryable_state.streaming.functions import UserFunctionError
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from queryable_state.streaming.functions import Function, RuntimeContext


class OpenFunctions:
    """Opens functions in order and closes all of them in reverse order on exit.

    A function whose `open` failed is closed too, because it may hold resources. An error of `close`
    is raised, or added as a note if the task has already failed.
    """

    def __init__(self, where: str) -> None:
        self._where = where
        self._functions: list[Function] = []

    def open(self, function: Function, context: RuntimeContext) -> None:
        """Opens a function. An object that several states share is opened once."""
        if any(function is known for known in self._functions):
            return
        self._functions.append(function)
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
                    failure.add_note(
                        f"{self._where}: close failed too: {type(error).__name__}: {error}"
                    )
        if failed_to_close is not None:
            raise failed_to_close

    def _failed(self, function: Function, hook: str, error: Exception) -> UserFunctionError:
        return UserFunctionError(
            f"{self._where}: {hook} failed in {type(function).__name__}: "
            f"{type(error).__name__}: {error}"
        )
