"""The operators of a `TimedJob` in harnesses, with the clocks of its batches."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.runtime.timers.timer_model import OUTPUT, row
from tests.spark.random_times.timed_job import (
    KEPT,
    Scripted,
    kept,
    late,
    schema,
    session_windows,
    sessions,
    sliding,
    sliding_windows,
    tumbling,
    tumbling_windows,
)
from tests.spark.random_times.timed_model import time_of

from queryable_state.streaming.testing import KeyedOperatorHarness, WindowedOperatorHarness

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.chaos.history.batch_log import Batch
    from tests.runtime.timers.timer_model import Call
    from tests.spark.random_times.timed_model import Element
    from tests.spark.random_times.timed_shape import TimedShape

_OPTIONS: dict[str, Any] = {"key_by": "k", "event_time": "ts", "parallelism": 2}


class TimedHarnesses:
    """Runs batches of the input of the job; one operator behind another is left out."""

    def __init__(self, steps: Sequence[Sequence[Call]], shape: TimedShape) -> None:
        self._shape = shape
        columns, self._late = schema(shape), late(shape)
        self._tumbling = WindowedOperatorHarness(
            tumbling_windows(shape),
            lambda windowed: tumbling(windowed, shape),
            columns,
            side_outputs=[self._late],
            **_OPTIONS,
        )
        self._harnesses: dict[str, KeyedOperatorHarness] = {
            "scripted": KeyedOperatorHarness(
                Scripted(steps), columns, output_type=OUTPUT, **_OPTIONS
            ),
            "tumbling": self._tumbling,
            "sliding": WindowedOperatorHarness(
                sliding_windows(shape), sliding, columns, **_OPTIONS
            ),
            "sessions": WindowedOperatorHarness(
                session_windows(shape), sessions, columns, **_OPTIONS
            ),
            "kept": KeyedOperatorHarness(
                kept(shape),
                columns,
                output_type=KEPT,
                **(_OPTIONS | {"key_by": list(shape.typed.schema)}),
            ),
        }

    def run(self, batch: Batch, elements: Iterable[Element]) -> dict[str, list[Any]]:
        """What each operator puts out, and the late elements of the tumbling windows."""
        shape = self._shape
        rows = [
            (
                *(key, time_of(at), value, row(key, calls)[1], json.dumps(ops)),
                *shape.typed.values[shape.every_key.index(key)],
            )
            for key, at, value, calls, ops in elements
        ]
        found = {}
        for name, harness in self._harnesses.items():
            harness.timestamp_ms = batch.timestamp_ms
            harness.watermark_ms = batch.watermark_ms or 0
            found[name] = [tuple(each) for each in harness.process(rows)]
        return found | {"late": [tuple(each) for each in self._tumbling.side_output(self._late)]}

    def rescale(self, parallelism: int) -> None:
        """Restarts each operator at another parallelism."""
        for harness in self._harnesses.values():
            harness.rescale(parallelism)

    def kept(self, name: str) -> dict[Any, Any]:
        """A kept state of all keys."""
        return self._harnesses["kept"].states(name)
