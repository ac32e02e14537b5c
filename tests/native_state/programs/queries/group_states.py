"""applyInPandasWithState with timeouts in event time, in processing time, and without."""

from collections.abc import Callable, Iterator
from typing import Any

import pandas as pd
from pyspark.sql import DataFrame
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from tests.native_state.programs.queries.aggregations import at
from tests.native_state.programs.written_query import WrittenQuery

VISITS = "user STRING, shop INT, at TIMESTAMP"
_OUTPUT = "user STRING, visits BIGINT"
_STATE = "visits BIGINT, last STRING, total DOUBLE"
Read = Callable[[str], DataFrame]


def _visits(
    key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState, timeout: str
) -> Iterator[pd.DataFrame]:
    if state.hasTimedOut:
        (visits, _, _) = state.get
        state.remove()
        yield pd.DataFrame({"user": [key[0]], "visits": [-visits]})
        return
    (visits, last, total) = state.get if state.exists else (0, None, 0.0)
    for frame in frames:
        visits += len(frame)
        total += float(frame["shop"].sum()) / 2
        last = str(frame["at"].max())
    if visits % 7 == 0:
        state.remove()
    else:
        state.update((visits, last, total))
        if timeout == GroupStateTimeout.EventTimeTimeout:
            state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 90_000)
        elif timeout == GroupStateTimeout.ProcessingTimeTimeout:
            state.setTimeoutDuration(3_600_000 if visits % 2 else 1)
    yield pd.DataFrame({"user": [key[0]], "visits": [visits]})


def _plan(read: Read, timeout: str) -> DataFrame:
    def visits(
        key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        return _visits(key, frames, state, timeout)

    return (
        read("visits")
        .withWatermark("at", "30 seconds")
        .groupBy("user", "shop")
        .applyInPandasWithState(visits, _OUTPUT, _STATE, "update", timeout)
    )


def without_timeout(read: Read) -> DataFrame:
    """State that stays until it is removed."""
    return _plan(read, GroupStateTimeout.NoTimeout)


def with_event_timeout(read: Read) -> DataFrame:
    """State that ends ninety seconds after the watermark of its last batch."""
    return _plan(read, GroupStateTimeout.EventTimeTimeout)


def with_processing_timeout(read: Read) -> DataFrame:
    """State that ends after an hour or at once."""
    return _plan(read, GroupStateTimeout.ProcessingTimeTimeout)


def feed_visits(query: WrittenQuery) -> None:
    """Five batches, a minute apart; a restart between."""
    for minute in range(5):
        query.feed(
            [
                {
                    "user": None if n == 5 else f"user-{(n + 9 * minute) % 23}",
                    "shop": n % 3,
                    "at": at(60 * minute + n % 50),
                }
                for n in range(40)
            ]
        )
        if minute == 2:
            query.stop()
    query.stop()
