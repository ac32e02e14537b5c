"""Calls of a window function with the window of the cursor."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.descriptors import ListStateDescriptor
from queryable_state.streaming.windows.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from queryable_state.streaming.runtime.windows.contexts import FunctionContext
    from queryable_state.streaming.runtime.windows.cursor import WindowCursor
    from queryable_state.streaming.runtime.windows.window_operator import WindowOperator


class WindowCalls:
    """The function of a window operator, whatever its class."""

    def __init__(
        self, operator: WindowOperator, cursor: WindowCursor, context: FunctionContext
    ) -> None:
        self._function = operator.function
        self._has_list = isinstance(operator.contents, ListStateDescriptor)
        self._cursor = cursor
        self._context = context

    def outputs(self, contents: Any) -> Iterable[Any] | None:
        """The outputs for the contents of the window: its elements, or what they make."""
        elements = contents if self._has_list else [contents]
        match self._function:
            case None:
                return elements
            case WindowFunction() as function:
                return function.apply(self._cursor.key, self._cursor.window, elements)
            case AllWindowFunction() as function:
                return function.apply(self._cursor.window, elements)
            case ProcessWindowFunction() as function:
                return function.process(self._cursor.key, self._context, elements)
            case ProcessAllWindowFunction() as function:
                return function.process(self._context, elements)

    def end(self) -> None:
        """Has the function clear its state of the window."""
        if isinstance(self._function, ProcessWindowFunction | ProcessAllWindowFunction):
            self._function.clear(self._context)
