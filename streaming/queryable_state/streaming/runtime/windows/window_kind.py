"""Classes of windows, and the namespaces of their state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from queryable_state.streaming.windows.serializers import (
    CountWindowSerializer,
    GlobalWindowSerializer,
    TimeWindowSerializer,
)
from queryable_state.streaming.windows.window import CountWindow, GlobalWindow, TimeWindow
from queryable_state.wire.errors import CorruptDataError, InvalidRequestError
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE, window_namespace, window_of
from queryable_state.wire.keys.time_window import TIME_WINDOW_TYPE

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.streaming.windows.assigner import WindowAssigner
    from queryable_state.streaming.windows.window import Window
    from queryable_state.wire.schema.types import TypeInfo


@dataclass(frozen=True)
class WindowKind:
    """The windows of one assigner."""

    window_class: type[Window]
    namespace_type: TypeInfo | None
    """The type that state of these windows is registered with; None: it belongs to keys only."""
    _encode: Callable[[Any], bytes]
    _decode: Callable[[bytes], Window]

    @staticmethod
    def of(assigner: WindowAssigner) -> WindowKind:
        """The windows of an assigner; raises InvalidRequestError if its serializer is of another
        class than those of this package."""
        serializer = assigner.get_window_serializer()
        for kind, serializers in _KINDS:
            if isinstance(serializer, serializers):
                return kind
        raise InvalidRequestError(
            f"{type(assigner).__name__}.get_window_serializer returned {serializer!r}: return a "
            "TimeWindowSerializer, CountWindowSerializer or GlobalWindowSerializer, because state "
            "is stored by windows of these classes"
        )

    def namespace(self, window: Window) -> bytes:
        """The namespace of a window's state; raises InvalidRequestError for another class."""
        if not isinstance(window, self.window_class):
            raise InvalidRequestError(
                f"the assigner returned {window!r}, but its serializer is for windows of class "
                f"{self.window_class.__name__}"
            )
        return self._encode(window)

    def window(self, namespace: bytes) -> Window:
        """The window of a namespace."""
        return self._decode(namespace)


def _bounds(namespace: bytes) -> tuple[int, int]:
    bounds = window_of(namespace)
    if bounds is None:
        raise CorruptDataError("state of windows has a record or a timer without a window")
    return bounds


_KINDS = (
    (
        WindowKind(
            TimeWindow,
            TIME_WINDOW_TYPE,
            lambda window: window_namespace(window.start, window.end),
            lambda namespace: TimeWindow(*_bounds(namespace)),
        ),
        TimeWindowSerializer,
    ),
    (
        # The interval from the window's number to the next number.
        WindowKind(
            CountWindow,
            TIME_WINDOW_TYPE,
            lambda window: window_namespace(window.id, window.id + 1),
            lambda namespace: CountWindow(_bounds(namespace)[0]),
        ),
        CountWindowSerializer,
    ),
    (
        WindowKind(
            GlobalWindow, None, lambda window: VOID_NAMESPACE, lambda namespace: GlobalWindow.get()
        ),
        GlobalWindowSerializer,
    ),
)
