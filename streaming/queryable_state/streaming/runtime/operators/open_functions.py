"""The user's functions of one task, from their opening to their closing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from queryable_state.streaming.functions import UserFunctionError
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from queryable_state.streaming.functions import Function, RuntimeContext


class OpenFunctions:
    """Opens functions in order and closes them in reverse order, whatever happened meanwhile.

    A function whose `open` failed is closed too: it may have taken something by then. Where
    the task fails, what goes wrong in closing is a note of that failure; else it is raised.
    """

    def __init__(self, place: str) -> None:
        self._place = place
        self._functions: list[Function] = []

    def open(self, function: Function, context: RuntimeContext) -> None:
        """Open a function; one object once, however many states share it."""
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
                        f"{self._place}: close failed too: {type(error).__name__}: {error}"
                    )
        if failed_to_close is not None:
            raise failed_to_close

    def _failed(self, function: Function, hook: str, error: Exception) -> UserFunctionError:
        return UserFunctionError(
            f"{self._place}: {hook} failed in {type(function).__name__}: "
            f"{type(error).__name__}: {error}"
        )
