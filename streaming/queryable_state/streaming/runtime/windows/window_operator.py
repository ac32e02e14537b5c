"""The window operator as a picklable description."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.streaming.runtime.windows.window_kind import WindowKind
from queryable_state.streaming.windows.assigner import MergingWindowAssigner
from queryable_state.streaming.windows.window import MAX_LONG

if TYPE_CHECKING:
    from queryable_state.streaming.descriptors import ListStateDescriptor, ValueStateDescriptor
    from queryable_state.streaming.functions import (
        AggregatingStateDescriptor,
        ReducingStateDescriptor,
    )
    from queryable_state.streaming.stateless.output_tag import OutputTag
    from queryable_state.streaming.windows.assigner import WindowAssigner
    from queryable_state.streaming.windows.trigger import Trigger
    from queryable_state.streaming.windows.window import Window
    from queryable_state.streaming.windows.window_functions import AnyWindowFunction

CONTENTS_NAME = "window-contents"
"""Name of the state with the elements of the windows."""


@dataclass(frozen=True, kw_only=True)
class WindowOperator:
    """Groups the elements of each key by window; emits the outputs for each window that fires."""

    assigner: WindowAssigner
    trigger: Trigger
    contents: ListStateDescriptor | ReducingStateDescriptor | AggregatingStateDescriptor
    """The elements of a window, or what they are reduced or aggregated to."""
    function: AnyWindowFunction | None = None
    """None: the elements of a window are its outputs."""
    allowed_lateness_ms: int = 0
    """For this time after its end a window takes late elements."""
    late_tag: OutputTag | None = None
    """The side output of late elements; None: they are dropped."""
    fired: ValueStateDescriptor | None = None
    """State of each key with the contents of its newest window that has fired; None: not kept."""

    @property
    def kind(self) -> WindowKind:
        """The class of the windows."""
        return WindowKind.of(self.assigner)

    @property
    def is_merging(self) -> bool:
        """True if windows of a key may be merged."""
        return isinstance(self.assigner, MergingWindowAssigner)

    def cleanup_time(self, window: Window) -> int:
        """The time at which a window ends for good; 2**63 - 1: never."""
        last = window.max_timestamp()
        if not self.assigner.is_event_time():
            return last
        return min(last + self.allowed_lateness_ms, MAX_LONG)
