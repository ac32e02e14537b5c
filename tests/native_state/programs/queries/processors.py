"""transformWithState: value, list and map state, with and without TTL, and timers.

The same processors run on rows and in pandas: only how they read and write rows differs.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame, Row
from pyspark.sql.streaming.stateful_processor import (
    ExpiredTimerInfo,
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from pyspark.sql.types import LongType, StringType, StructField, StructType
from tests.native_state.programs.queries.aggregations import at
from tests.native_state.programs.written_query import WrittenQuery

MEASURES = "sensor STRING, room INT, value BIGINT, at TIMESTAMP"
_OUTPUT = StructType([StructField("sensor", StringType()), StructField("count", LongType())])
_TTL_MS = 3_600_000
_GONE_MS = 1
Read = Callable[[str], DataFrame]


class _Sensor(StatefulProcessor):
    """State of every kind for one sensor and room."""

    timers = False

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._count = handle.getValueState("count", "n BIGINT, last STRING")
        self._values = handle.getListState("values", "value BIGINT")
        self._rooms = handle.getMapState("by_value", "value BIGINT, kind STRING", "n BIGINT")

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[Any]:
        values = list(self._values_of(rows))
        n = (self._count.get() or (0,))[0]
        n += len(values)
        if n % 11 == 0:
            self._count.clear()
            self._values.clear()
            self._rooms.clear()
        else:
            self._count.update((n, f"last {values[-1]}"))
            if n % 3:
                self._values.appendList([(value,) for value in values])
                self._values.appendValue((-1,))
            else:
                self._values.put([(value,) for value in values])
            for value in values:
                self._rooms.updateValue((value % 5, "five"), (value,))
            if n % 4 == 0 and self._rooms.containsKey((0, "five")):
                self._rooms.removeKey((0, "five"))
        self._more(key, values, timerValues)
        yield self._answer(key, n)

    def handleExpiredTimer(
        self, key: Any, timerValues: TimerValues, expiredTimerInfo: ExpiredTimerInfo
    ) -> Iterator[Any]:
        self._count.update((-1, f"timer {expiredTimerInfo.getExpiryTimeInMs() % 60_000}"))
        yield self._answer(key, -1)

    def close(self) -> None:
        pass

    def _more(self, key: Any, values: list[int], timers: TimerValues) -> None:
        """What a variant does beyond that."""

    def _values_of(self, rows: Any) -> Iterator[int]:
        for row in rows:
            yield row["value"]

    def _answer(self, key: Any, n: int) -> Any:
        return Row(sensor=key[0], count=n)


class _Pandas(StatefulProcessor):
    """Frames in place of rows."""

    def _values_of(self, rows: Any) -> Iterator[int]:
        for frame in rows:
            yield from (int(value) for value in frame["value"])

    def _answer(self, key: Any, n: int) -> Any:
        return pd.DataFrame({"sensor": [key[0]], "count": [n]})


class _WithTtl(_Sensor):
    """All states again, with a TTL of an hour, and one of a millisecond."""

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._handle = handle
        self._count = handle.getValueState("count", "n BIGINT, last STRING", _TTL_MS)
        self._values = handle.getListState("values", "value BIGINT", _TTL_MS)
        self._rooms = handle.getMapState(
            "by_value", "value BIGINT, kind STRING", "n BIGINT", _TTL_MS
        )
        self._gone = handle.getValueState("gone", "n BIGINT", _GONE_MS)

    def _more(self, key: Any, values: list[int], timers: TimerValues) -> None:
        self._gone.update((len(values),))


class _EventTimers(_Sensor):
    """Two timers in event time, one of which is deleted again."""

    def _more(self, key: Any, values: list[int], timers: TimerValues) -> None:
        now = max(timers.getCurrentWatermarkInMs(), 0) or 1_767_225_600_000
        self._handle.registerTimer(now + 60_000 + 1000 * (values[0] % 7))
        self._handle.registerTimer(now + 300_000)
        if values[0] % 2:
            self._handle.deleteTimer(now + 300_000)


class _ProcessingTimers(_Sensor):
    """A timer an hour ahead and one that is due at once."""

    def _more(self, key: Any, values: list[int], timers: TimerValues) -> None:
        now = timers.getCurrentProcessingTimeInMs()
        self._handle.registerTimer(now + 3_600_000 + values[0])
        if values[0] % 5 == 0:
            self._handle.registerTimer(now + 1)


class PandasSensor(_Pandas, _Sensor):
    """In pandas, without time."""


class PandasTtl(_Pandas, _WithTtl):
    """In pandas, with TTL."""


class PandasEventTimers(_Pandas, _EventTimers):
    """In pandas, with timers in event time."""


class PandasProcessingTimers(_Pandas, _ProcessingTimers):
    """In pandas, with timers in processing time."""


def in_pandas(processor: type[StatefulProcessor], time_mode: str) -> Callable[[Read], DataFrame]:
    """The query with a processor of frames."""

    def plan(read: Read) -> DataFrame:
        return (
            read("measures")
            .withWatermark("at", "30 seconds")
            .groupBy("sensor", "room")
            .transformWithStateInPandas(processor(), _OUTPUT, "Update", time_mode)
        )

    return plan


def on_rows(processor: type[StatefulProcessor], time_mode: str) -> Callable[[Read], DataFrame]:
    """The query with a processor of rows."""

    def plan(read: Read) -> DataFrame:
        return (
            read("measures")
            .withWatermark("at", "30 seconds")
            .groupBy("sensor")
            .transformWithState(processor(), _OUTPUT, "Update", time_mode)
        )

    return plan


RowSensor, RowTtl, RowEventTimers, RowProcessingTimers = (
    _Sensor,
    _WithTtl,
    _EventTimers,
    _ProcessingTimers,
)


def feed_measures(query: WrittenQuery) -> None:
    """Five batches, a minute apart; a restart between."""
    for minute in range(5):
        query.feed(
            [
                {
                    "sensor": None if n == 5 else f"sensor-{(n + 6 * minute) % 17}",
                    "room": n % 2,
                    "value": n + minute,
                    "at": at(60 * minute + n % 50),
                }
                for n in range(34)
            ]
        )
        if minute == 2:
            query.stop()
    query.stop()
