"""State whose schema grows between two runs, in Avro."""

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.stateful_processor import (
    StatefulProcessor,
    StatefulProcessorHandle,
    TimerValues,
)
from tests.native_state.programs.queries.aggregations import at
from tests.native_state.programs.queries.processors import MEASURES
from tests.native_state.programs.written_query import WrittenQuery

Read = Callable[[str], DataFrame]
__all__ = ["MEASURES", "feed_and_evolve", "first_schema", "second_schema"]


class _Evolving(StatefulProcessor):
    """A count, the last values and values by kind."""

    count_schema = "n INT, last STRING"
    value_schema = "value BIGINT"
    kind_schema = "n INT"

    def init(self, handle: StatefulProcessorHandle) -> None:
        self._count = handle.getValueState("count", self.count_schema)
        self._values = handle.getListState("values", self.value_schema)
        self._kinds = handle.getMapState("kinds", "kind STRING", self.kind_schema)

    def handleInputRows(self, key: Any, rows: Any, timerValues: TimerValues) -> Iterator[Any]:
        values = [int(value) for frame in rows for value in frame["value"]]
        n = (self._count.get() or (0,))[0] + len(values)
        self._count.update((n, f"last {values[-1]}", *self._added(n)))
        self._values.appendList([(value, *self._added(value)) for value in values])
        for value in values:
            self._kinds.updateValue((f"kind {value % 3}",), (value, *self._added(value)))
        yield pd.DataFrame({"n": [n]})

    def close(self) -> None:
        pass

    def _added(self, n: int) -> tuple[Any, ...]:
        return ()


class _Evolved(_Evolving):
    """The same with wider numbers and two more fields each."""

    count_schema = "n BIGINT, last STRING, mean DOUBLE, tags ARRAY<STRING>"
    value_schema = "value BIGINT, mean DOUBLE, tags ARRAY<STRING>"
    kind_schema = "n BIGINT, mean DOUBLE, tags ARRAY<STRING>"

    def _added(self, n: int) -> tuple[Any, ...]:
        return (n / 2, [f"tag {n}"] if n % 2 else None)


def _plan(read: Read, processor: StatefulProcessor) -> DataFrame:
    return (
        read("measures")
        .groupBy("sensor")
        .transformWithStateInPandas(processor, "n BIGINT", "Update", "None")
    )


def first_schema(read: Read) -> DataFrame:
    """The query before the change."""
    return _plan(read, _Evolving())


def second_schema(read: Read) -> DataFrame:
    """The query after it."""
    return _plan(read, _Evolved())


def _measures(batch: int) -> list[dict[str, object]]:
    return [
        {"sensor": f"sensor-{(n + 6 * batch) % 17}", "room": 1, "value": n + batch, "at": at(n)}
        for n in range(30)
    ]


def feed_and_evolve(query: WrittenQuery) -> None:
    """Three batches with the first schema, one with the second, over a part of the keys."""
    for batch in range(3):
        query.feed(_measures(batch))
    query.stop()
    query.plan = second_schema
    query.feed(_measures(3)[:9])
    query.feed(_measures(4)[:3])
    query.stop()
