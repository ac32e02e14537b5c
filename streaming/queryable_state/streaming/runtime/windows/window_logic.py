"""Windows of a task: elements are added, timers fire, windows are merged and end.

The rules are those of Flink's `WindowOperator`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from queryable_state.streaming.descriptors import ListStateDescriptor
from queryable_state.streaming.runtime.windows.merged_state import merge_state
from queryable_state.streaming.runtime.windows.merging_window_set import MergingWindowSet
from queryable_state.streaming.windows.assigner import MergingWindowAssigner
from queryable_state.streaming.windows.trigger import TriggerResult
from queryable_state.streaming.windows.window import MAX_LONG
from queryable_state.wire.keys.timer_keys import Clock

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence

    from queryable_state.streaming.runtime.states.task_states import TaskStates
    from queryable_state.streaming.runtime.timers.due_page import DueTimer
    from queryable_state.streaming.runtime.windows.contexts import TaskTriggerContext
    from queryable_state.streaming.runtime.windows.cursor import WindowCursor
    from queryable_state.streaming.runtime.windows.window_operator import WindowOperator
    from queryable_state.streaming.runtime.windows.window_states import WindowStates
    from queryable_state.streaming.windows.window import TimeWindow, Window

    Pane = tuple[Window, int]
    """A window and its slot; windows that are merged have no slot yet."""

_UNKNOWN = b"unknown"
_PIECE_MOVES: Final = 1024
"""Windows whose contents are fetched together when they move."""


class WindowLogic:
    """The windows of the current key of a task.

    `emit` is called with the contents of a window that fires, and `end` when a window ends for
    good, both with the cursor at the window.
    """

    def __init__(
        self,
        operator: WindowOperator,
        owned: TaskStates,
        states: WindowStates,
        cursor: WindowCursor,
        context: TaskTriggerContext,
        *,
        emit: Callable[[Any], None],
        end: Callable[[], None],
    ) -> None:
        self._operator = operator
        self._kind = operator.kind
        self._trigger = operator.trigger
        self._is_event_time = operator.assigner.is_event_time()
        self._owned = owned
        self._table = owned.windows
        self._contents = states.contents
        self._keeps_elements = isinstance(operator.contents, ListStateDescriptor)
        self._merging_set = states.merging_set
        self._cursor = cursor
        self._context = context
        self._emit = emit
        self._end = end
        self._sets: dict[int, MergingWindowSet] = {}
        """By key slot."""

    def start_chunk(
        self, slots: Sequence[int], windows: Sequence[Collection[Window]]
    ) -> list[Sequence[Pane]]:
        """Makes the windows that elements are added to the chunk.

        `slots` has the slot of each element's key, and `windows` its windows. Returns, for each
        element, what `add` needs.
        """
        if self._merging_set is not None:
            self._start_merging(dict.fromkeys(slots))
            return [[(window, 0) for window in of] for of in windows]
        namespaces: dict[Window, bytes | None] = {}
        taken: list[list[Window]] = []
        pairs = []
        for slot, of in zip(slots, windows, strict=True):
            own = []
            for window in of:
                namespace = namespaces.get(window, _UNKNOWN)
                if namespace is _UNKNOWN:
                    namespace = None if self._is_late(window) else self._kind.namespace(window)
                    namespaces[window] = namespace
                if namespace is not None:
                    own.append(window)
                    pairs.append((slot, namespace))
            taken.append(own)
        found = iter(self._table.start_chunk(pairs))
        # `zip` must read the windows first: at their end it must not consume a slot.
        return [list(zip(own, found)) for own in taken]  # noqa: B905

    def start_page(self, timers: Sequence[DueTimer]) -> None:
        """Makes the windows of these timers the chunk; their keys are in the table of keys."""
        slot_of = self._owned.keys.slot_of
        pairs = [(slot_of(timer.wire_key), timer.namespace) for timer in timers]
        if self._merging_set is not None:
            self._start_merging(dict.fromkeys(slot for slot, _ in pairs))
            return
        self._table.start_chunk(pairs)

    def _start_merging(self, key_slots: Iterable[int]) -> None:
        namespace = self._kind.namespace
        self._table.start_chunk(
            (slot, namespace(window)) for slot in key_slots for window in self._set_of(slot).windows
        )

    def add(self, element: Any, timestamp: int, panes: Iterable[Pane]) -> bool:
        """Adds an element of the current key to its windows; False if it is late for all."""
        added = False
        cursor, contents, context = self._cursor, self._contents, self._context
        for assigned, slot in panes:
            window = assigned
            if self._merging_set is None:
                cursor.move(window, self._table.namespaces[slot], slot, slot)
            else:
                merging = self._set_of(self._owned.current_key.slot)
                window = merging.add(assigned, self._merge)  # type: ignore[arg-type]
                if self._is_late(window):
                    merging.retire(window)
                    continue
                self._move(window)
                cursor.at_contents()
            added = True
            contents.add(element)
            cursor.at_window()
            self._follow(self._trigger.on_element(element, timestamp, window, context))
            if cursor.slot not in context.with_cleanup:
                self._register_cleanup(window)
        return added or not self._is_element_late(timestamp)

    def fire(self, timer: DueTimer) -> None:
        """Fires a timer of the current key."""
        window = self._kind.window(timer.namespace)
        merging = None
        if self._merging_set is not None:
            merging = self._set_of(self._owned.current_key.slot)
            # A trigger may leave timers of windows that were merged or have ended.
            if merging.state_window(window) is None:  # type: ignore[arg-type]
                return
        self._move(window)
        is_event_time = timer.clock == Clock.EVENT_TIME
        called = self._trigger.on_event_time if is_event_time else self._trigger.on_processing_time
        self._follow(called(timer.timestamp_ms, window, self._context))
        if self._is_event_time != is_event_time:
            return
        if timer.timestamp_ms == self._operator.cleanup_time(window):
            self._cursor.at_contents()
            self._contents.clear()
            self._cursor.at_window()
            self._trigger.clear(window, self._context)
            self._cursor.at_window()
            self._end()
            self._context.with_cleanup.discard(self._cursor.slot)
            if merging is not None:
                merging.retire(window)  # type: ignore[arg-type]

    def persist(self) -> None:
        """Moves the contents of merged windows to the live windows, and writes the mappings."""
        namespace = self._kind.namespace
        moves = [
            (slot, namespace(window), namespace(under))
            for slot, merging in self._sets.items()
            for window, under in merging.moves()
        ]
        for start in range(0, len(moves), _PIECE_MOVES):
            piece = moves[start : start + _PIECE_MOVES]
            targets = [(slot, target) for slot, target, _ in piece]
            slots = self._table.start_chunk(targets + [(slot, source) for slot, _, source in piece])
            for number, (key_slot, *_) in enumerate(piece):
                self._owned.current_key.slot = key_slot
                sources = [slots[len(piece) + number]]
                merge_state(self._contents, self._cursor, slots[number], sources)
        for slot, merging in self._sets.items():
            self._owned.current_key.slot = slot
            merging.persist(self._merging_set)  # type: ignore[arg-type]

    def _move(self, window: Window) -> None:
        """Moves the cursor to a live window of the current key."""
        namespace = self._kind.namespace(window)
        slot = contents = self._slot(window)
        if self._merging_set is not None:
            merging = self._set_of(self._owned.current_key.slot)
            stored = merging.state_window(window)  # type: ignore[arg-type]
            assert stored is not None, "a live window has a state window"
            contents = self._slot(stored)
        self._cursor.move(window, namespace, slot, contents)

    def _slot(self, window: Window) -> int:
        """The slot of a window of the current key."""
        # The state of windows that are merged is in the chunk, unless it is new.
        stored = self._merging_set is None
        key_slot = self._owned.current_key.slot
        return self._table.slot(key_slot, self._kind.namespace(window), stored=stored)

    def _follow(self, result: TriggerResult) -> None:
        """Does what the trigger says about the window of the cursor."""
        if result is TriggerResult.CONTINUE:
            return
        cursor = self._cursor
        if result.is_fire():
            cursor.at_contents()
            contents = self._contents.get()
            cursor.at_window()
            # A list without elements is no contents; an empty result of an aggregate is one.
            if contents is not None and not (self._keeps_elements and contents == []):
                self._emit(contents)
        if result.is_purge():
            cursor.at_contents()
            self._contents.clear()
        cursor.at_window()

    def _merge(
        self,
        result: TimeWindow,
        merged: Sequence[TimeWindow],
        state_window: TimeWindow,
        merged_state_windows: Sequence[TimeWindow],
    ) -> None:
        context, cursor = self._context, self._cursor
        self._move(result)
        context.merged_slots = list(map(self._slot, merged))
        self._trigger.on_merge(result, context)
        for window in merged:
            slot = self._slot(window)
            cursor.move(window, self._kind.namespace(window), slot, slot)
            self._trigger.clear(window, context)
            self._delete_cleanup(window)
        sources = map(self._slot, merged_state_windows)
        merge_state(self._contents, cursor, self._slot(state_window), sources)

    def _set_of(self, key_slot: int) -> MergingWindowSet:
        merging = self._sets.get(key_slot)
        if merging is None:
            self._owned.current_key.slot = key_slot
            assert isinstance(self._operator.assigner, MergingWindowAssigner)
            assert self._merging_set is not None
            merging = MergingWindowSet(self._operator.assigner, self._merging_set)
            self._sets[key_slot] = merging
        return merging

    def _is_late(self, window: Window) -> bool:
        if not self._is_event_time:
            return False
        return self._operator.cleanup_time(window) <= self._context.get_current_watermark()

    def _is_element_late(self, timestamp: int) -> bool:
        if not self._is_event_time:
            return False
        lateness = self._operator.allowed_lateness_ms
        return timestamp + lateness <= self._context.get_current_watermark()

    def _register_cleanup(self, window: Window) -> None:
        self._context.with_cleanup.add(self._cursor.slot)
        time = self._operator.cleanup_time(window)
        if time == MAX_LONG:
            return
        if self._is_event_time:
            self._context.register_event_time_timer(time)
        else:
            self._context.register_processing_time_timer(time)

    def _delete_cleanup(self, window: Window) -> None:
        time = self._operator.cleanup_time(window)
        if time == MAX_LONG:
            return
        if self._is_event_time:
            self._context.delete_event_time_timer(time)
        else:
            self._context.delete_processing_time_timer(time)
