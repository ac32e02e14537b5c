"""The key and window of which a task calls trigger and function."""

from __future__ import annotations

import pickle
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from queryable_state.streaming.runtime.states.task_states import TaskStates
    from queryable_state.streaming.windows.window import Window


class WindowCursor:
    """The current key and window; states of windows refer to them.

    The state of a window's elements may be under another window, if windows were merged:
    `contents_slot` is its slot, and `slot` is that of all other state of the window.
    """

    window: Window
    namespace: bytes
    slot: int
    contents_slot: int

    def __init__(self, owned: TaskStates, *, pickled_keys: bool) -> None:
        self._current = owned.windows.current
        self._current_key = owned.current_key
        self._keys = owned.keys
        self._pickled_keys = pickled_keys

    def move(self, window: Window, namespace: bytes, slot: int, contents_slot: int) -> None:
        """Moves to a window of the current key."""
        self.window = window
        self.namespace = namespace
        self.slot = slot
        self.contents_slot = contents_slot
        self._current.slot = slot

    @property
    def wire_key(self) -> bytes:
        """Wire key of the current key."""
        return self._keys.wire_keys[self._current_key.slot]

    @property
    def key(self) -> Any:
        """The current key, as functions see it."""
        key = self._keys.keys[self._current_key.slot]
        return pickle.loads(key) if self._pickled_keys else key  # noqa: S301 - the job's own

    def at_contents(self) -> None:
        """Lets states refer to the slot of the window's elements."""
        self._current.slot = self.contents_slot

    def at_window(self) -> None:
        """Lets states refer to the slot of the window."""
        self._current.slot = self.slot

    def at(self, slot: int) -> None:
        """Lets states refer to the slot of another window."""
        self._current.slot = slot
