"""The operators of a `TimedJob` in harnesses, with the clocks of its batches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.runtime.timers.timer_model import OUTPUT, row
from tests.spark.random_times.timed_job import (
    LATE,
    SCHEMA,
    SESSIONS,
    SLIDING,
    TUMBLING,
    Scripted,
    sessions,
    sliding,
    tumbling,
)
from tests.spark.random_times.timed_model import time_of

from queryable_state.streaming.testing import KeyedOperatorHarness, WindowedOperatorHarness

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.chaos.history.batch_log import Batch
    from tests.runtime.timers.timer_model import Call
    from tests.spark.random_times.timed_model import Element

_OPTIONS: dict[str, Any] = {"key_by": "k", "event_time": "ts", "parallelism": 2}


class TimedHarnesses:
    """Runs batches of the input of the job; one operator behind another is left out."""

    def __init__(self, steps: Sequence[Sequence[Call]]) -> None:
        scripted = KeyedOperatorHarness(Scripted(steps), SCHEMA, output_type=OUTPUT, **_OPTIONS)
        self._tumbling = WindowedOperatorHarness(
            TUMBLING, tumbling, SCHEMA, side_outputs=[LATE], **_OPTIONS
        )
        self._harnesses: dict[str, KeyedOperatorHarness] = {
            "scripted": scripted,
            "tumbling": self._tumbling,
            "sliding": WindowedOperatorHarness(SLIDING, sliding, SCHEMA, **_OPTIONS),
            "sessions": WindowedOperatorHarness(SESSIONS, sessions, SCHEMA, **_OPTIONS),
        }

    def run(self, batch: Batch, elements: Iterable[Element]) -> dict[str, list[Any]]:
        """What each operator puts out, and the late elements of the tumbling windows."""
        rows = [(key, time_of(at), value, row(key, calls)[1]) for key, at, value, calls in elements]
        found = {}
        for name, harness in self._harnesses.items():
            harness.timestamp_ms = batch.timestamp_ms
            harness.watermark_ms = batch.watermark_ms or 0
            found[name] = [tuple(each) for each in harness.process(rows)]
        return found | {"late": [tuple(each) for each in self._tumbling.side_output(LATE)]}
