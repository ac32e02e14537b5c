"""State of each key with the result of its newest window that has fired."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.streaming.descriptors import ValueStateDescriptor
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from queryable_state.streaming.functions import RuntimeContext
    from queryable_state.streaming.windows.window import Window

_LAST_TIMESTAMP = ValueStateDescriptor("fired-window-timestamp", Types.LONG())


class FiredState:
    """The newest result of the current key. It stays when its window has ended."""

    def __init__(self, descriptor: ValueStateDescriptor, keyed: RuntimeContext) -> None:
        """Requests the states; they are usable after `bind`."""
        self._result = keyed.get_state(descriptor)
        self._last_timestamp = keyed.get_state(_LAST_TIMESTAMP)

    def update(self, window: Window, result: Any) -> None:
        """Takes the result of a window that fires, unless a newer window has fired before."""
        newest, last = self._last_timestamp.value(), window.max_timestamp()
        if newest is None or newest <= last:
            self._result.update(result)
            self._last_timestamp.update(last)
