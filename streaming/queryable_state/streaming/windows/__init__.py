"""Windows of keyed streams, with PyFlink's names: assigners, triggers and functions."""

from queryable_state.streaming.vectorised.column_aggregates import (
    avg_of,
    count_rows,
    max_of,
    min_of,
    sum_of,
)
from queryable_state.streaming.windows.assigner import (
    MergingWindowAssigner,
    WindowAssigner,
)
from queryable_state.streaming.windows.continuous_triggers import (
    ContinuousEventTimeTrigger,
    ContinuousProcessingTimeTrigger,
)
from queryable_state.streaming.windows.count_trigger import (
    CountTrigger,
)
from queryable_state.streaming.windows.count_windows import (
    CountSlidingWindowAssigner,
    CountTumblingWindowAssigner,
)
from queryable_state.streaming.windows.global_windows import (
    GlobalWindows,
    NeverTrigger,
)
from queryable_state.streaming.windows.purging_trigger import (
    PurgingTrigger,
)
from queryable_state.streaming.windows.serializers import (
    CountWindowSerializer,
    GlobalWindowSerializer,
    TimeWindowSerializer,
)
from queryable_state.streaming.windows.session_windows import (
    DynamicEventTimeSessionWindows,
    DynamicProcessingTimeSessionWindows,
    EventTimeSessionWindows,
    ProcessingTimeSessionWindows,
    SessionWindowTimeGapExtractor,
)
from queryable_state.streaming.windows.sliding_windows import (
    SlidingEventTimeWindows,
    SlidingProcessingTimeWindows,
)
from queryable_state.streaming.windows.time_triggers import (
    EventTimeTrigger,
    ProcessingTimeTrigger,
)
from queryable_state.streaming.windows.trigger import (
    Trigger,
    TriggerResult,
)
from queryable_state.streaming.windows.tumbling_windows import (
    TumblingEventTimeWindows,
    TumblingProcessingTimeWindows,
)
from queryable_state.streaming.windows.window import (
    CountWindow,
    GlobalWindow,
    TimeWindow,
    Window,
)
from queryable_state.streaming.windows.window_functions import (
    AllWindowFunction,
    ProcessAllWindowFunction,
    ProcessWindowFunction,
    WindowFunction,
)

__all__ = [
    "AllWindowFunction",
    "ContinuousEventTimeTrigger",
    "ContinuousProcessingTimeTrigger",
    "CountSlidingWindowAssigner",
    "CountTrigger",
    "CountTumblingWindowAssigner",
    "CountWindow",
    "CountWindowSerializer",
    "DynamicEventTimeSessionWindows",
    "DynamicProcessingTimeSessionWindows",
    "EventTimeSessionWindows",
    "EventTimeTrigger",
    "GlobalWindow",
    "GlobalWindowSerializer",
    "GlobalWindows",
    "MergingWindowAssigner",
    "NeverTrigger",
    "ProcessAllWindowFunction",
    "ProcessWindowFunction",
    "ProcessingTimeSessionWindows",
    "ProcessingTimeTrigger",
    "PurgingTrigger",
    "SessionWindowTimeGapExtractor",
    "SlidingEventTimeWindows",
    "SlidingProcessingTimeWindows",
    "TimeWindow",
    "TimeWindowSerializer",
    "Trigger",
    "TriggerResult",
    "TumblingEventTimeWindows",
    "TumblingProcessingTimeWindows",
    "Window",
    "WindowAssigner",
    "WindowFunction",
    "avg_of",
    "count_rows",
    "max_of",
    "min_of",
    "sum_of",
]
