"""Random input for a `TimedJob`, and what the job makes of it: from the models of its operators."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from tests.runtime.states.ttl_interpreter import OPERATIONS
from tests.runtime.states.ttl_model import Model
from tests.runtime.timers.timer_model import Call, TimerModel, row
from tests.runtime.windows.window_model import FixedWindows, Sessions
from tests.spark.random_times.timed_job import GROUPS, wrapping
from tests.spark.random_times.timed_shape import LAST_KEY

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from tests.chaos.history.batch_log import Batch
    from tests.spark.random_times.timed_shape import TimedShape

START_MS = 1_767_225_600_000
NO_WATERMARK = -(1 << 63)

Element = tuple[str, int, int, list[Call], list[tuple[str, int]]]
"""Key, timestamp, value, calls of the timer service, and operations on kept states."""


def random_steps(random: Random) -> list[list[Call]]:
    """What timers of a key call, one after the other; times are relative to the timer's."""
    return [
        [
            Call(random.random() < 0.7, random.random() < 0.5, random.randint(-5, 60))
            for _ in range(random.randrange(3))
        ]
        for _ in range(6)
    ]


def random_files(random: Random, count: int, keys: Sequence[str]) -> list[list[Element]]:
    """Files of elements out of order, some of them late; no two elements have one timestamp."""
    used: set[int] = set()
    files = []
    for number in range(count):
        file = []
        for _ in range(random.randrange(12)):
            at = START_MS + number * 15 + random.randint(-110, 25)
            while at in used:
                at += 1
            used.add(at)
            calls = [
                Call(random.random() < 0.7, is_event, random.randint(-20, 50 if is_event else 900))
                for is_event in random.choices([True, True, False], k=random.randrange(3))
            ]
            ops = [_operation(random) for _ in range(random.randrange(5))]
            file.append((random.choice(keys), at, random.randint(1, 99), calls, ops))
        files.append(file)
    return files


def _operation(random: Random) -> tuple[str, int]:
    name = random.choice(list(OPERATIONS))
    return f"{name}.{random.choice(OPERATIONS[name])}", random.randint(1, 3)


def last_file() -> list[Element]:
    """An element so late that all but its own windows and timers are over."""
    return [(LAST_KEY, START_MS + 3_600_000, 1, [], [])]


def feed_rows(file: Sequence[Element], shape: TimedShape) -> list[dict[str, Any]]:
    """A file as the feed takes it."""
    return [
        {
            "k": key,
            "ts": time_of(at).isoformat(),
            "v": value,
            "calls": row(key, calls)[1],
            "ops": json.dumps(ops),
            **shape.typed_json(key),
        }
        for key, at, value, calls, ops in file
    ]


def time_of(at: int) -> datetime:
    """A timestamp of milliseconds since the epoch."""
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at)


class EchoModel:
    """Timers behind timers: the elements are those that the first function puts out."""

    def __init__(self, after_ms: int) -> None:
        self._after_ms = after_ms
        self.seen: dict[str, int] = defaultdict(int)
        self.pending: set[tuple[int, str]] = set()

    def batch(self, watermark: int, elements: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        """`watermark`: that of the batch before. Elements are key and timestamp, or None."""
        due = sorted(timer for timer in self.pending if watermark and timer[0] <= watermark)
        self.pending.difference_update(due)
        fired = [(key, at, self.seen[key]) for at, key in due]
        for key, at in elements:
            self.seen[key] += 1
            if at is not None:
                self.pending.add((at + self._after_ms, key))
        return fired


class TimedModel:
    """The whole job, batch by batch."""

    def __init__(
        self,
        steps: Sequence[Sequence[Call]],
        files: Sequence[list[Element]],
        shape: TimedShape,
    ) -> None:
        self._files = files
        self._delay_ms = shape.delay_ms
        self._before = 0
        self._greatest = 0
        self.watermark = 0
        self.timers = TimerModel(steps)
        self.echo = EchoModel(shape.echo_ms)
        self.tumbling = FixedWindows(shape.tumbling_ms, shape.tumbling_ms, 0, shape.lateness_ms)
        self.sliding = FixedWindows(*shape.sliding_ms, 0, 0)
        self.sessions = Sessions(lambda _: shape.gap_ms, 0)
        self.kept = Model(shape.ttl_ms, shape.on_read, shape.returns_expired, wrapping(shape))
        self.limits: dict[int, int] = {}

    def elements(self, batch: Batch) -> list[Element]:
        """The elements of a batch, in the order of their timestamps as functions get them."""
        elements = [each for number in batch.files for each in self._files[number]]
        return sorted(elements, key=lambda each: each[1])

    def run(self, batch: Batch) -> dict[str, list[tuple[Any, ...]]]:
        """What each stream puts out; rows of one key in order, keys in any order."""
        before, self.watermark = (
            self.watermark,
            max(self.watermark, self._greatest - self._delay_ms),
        )
        elements = self.elements(batch)
        self._greatest = max([self._greatest, *(at for _, at, *_ in elements)])
        calls = [
            (
                key,
                [
                    call._replace(at=call.at + (at if call.is_event else batch.timestamp_ms))
                    for call in calls
                ],
            )
            for key, at, _, calls, _ in elements
        ]
        scripted = self.timers.run(calls, batch.timestamp_ms, self.watermark)
        shown = self.watermark or NO_WATERMARK
        plain = [each[:3] for each in elements]
        late = len(self.tumbling.late)
        fired = self.tumbling.batch(shown, plain)
        times: dict[str, list[int]] = defaultdict(list)
        for key, at, *_ in elements:
            times[key].append(at)
        return {
            "scripted": [each for rows in scripted.values() for each in rows],
            "echo": self.echo.batch(before, _timed(scripted, times)),
            "tumbling": fired,
            "late": self.tumbling.late[late:],
            "sliding": self.sliding.batch(shown, plain),
            "sessions": self.sessions.batch(shown, plain),
            "kept": self._kept(batch.timestamp_ms, elements),
            "limited": self._limited(plain),
        }

    def _kept(self, now_ms: int, elements: Sequence[Element]) -> list[tuple[Any, ...]]:
        self.kept.now_ms = now_ms
        return [
            (key, self.kept.apply(key, op, arg))
            for key, _, _, _, ops in elements
            for op, arg in ops
        ]

    def _limited(self, elements: Sequence[tuple[str, int, int]]) -> list[tuple[Any, ...]]:
        for _, _, value in elements:
            if value % 3 == 0:
                group = value % GROUPS
                self.limits[group] = max(value, self.limits.get(group, 0))
        return [(key, value, self.limits.get(value % GROUPS)) for key, _, value in elements]


def _timed(
    outputs: dict[str, list[tuple[Any, ...]]], times: dict[str, list[int]]
) -> list[tuple[str, int | None]]:
    """Outputs with their event times: of an element its own, of an event-time timer the timer's."""
    found: list[tuple[str, int | None]] = []
    for key, rows in outputs.items():
        ats = iter(times[key])
        for _, what, at, *_ in rows:
            time = next(ats) if what == "element" else at if what == "EVENT_TIME" else None
            found.append((key, time))
    return found
