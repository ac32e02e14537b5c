"""Windows of streams in Spark: a bounded input ends all of them, and live ones can be queried."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.spark.windows.window_functions import (
    Counted,
    OfAll,
    OfSum,
    OwnGap,
    SecondColumn,
    Sum,
)
from tests.waiting import until

from queryable_state.client import TimeWindow
from queryable_state.streaming import (
    Duration,
    EventTimeSessionWindows,
    OutputTag,
    SlidingEventTimeWindows,
    Time,
    TumblingEventTimeWindows,
    Types,
    WatermarkStrategy,
)
from queryable_state.wire.errors import UnknownStateError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from tests.spark.conftest import Connect, MakeFeed

    from queryable_state.streaming import DataStream, StreamExecutionEnvironment

ELEMENT = Types.TUPLE([Types.STRING(), Types.LONG()])
RESULT = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG()])
FIVE, TWO = Time.milliseconds(5), Time.milliseconds(2)


def timed(stream: DataStream) -> Any:
    strategy = WatermarkStrategy.for_monotonous_timestamps()
    return stream.assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(SecondColumn()))


def test_the_windows_of_a_bounded_input_all_fire(env: StreamExecutionEnvironment) -> None:
    elements = [("hi", at) for at in (1, 2, 3, 4, 5, 8, 9, 15)]
    source = timed(env.from_collection(elements, type_info=ELEMENT))
    keyed = source.key_by(lambda each: each[0], Types.STRING())
    streams = {
        "tumbling": keyed.window(TumblingEventTimeWindows.of(FIVE)).process(Counted(), RESULT),
        "sliding": keyed.window(SlidingEventTimeWindows.of(FIVE, TWO)).process(Counted(), RESULT),
        "sessions": keyed.window(EventTimeSessionWindows.with_gap(TWO)).process(Counted(), RESULT),
        "own gaps": keyed.window(EventTimeSessionWindows.with_dynamic_gap(OwnGap())).process(
            Counted(), RESULT
        ),
        "counts": keyed.count_window(3).apply(OfSum(), RESULT),
        "all": source.window_all(TumblingEventTimeWindows.of(FIVE)).apply(OfAll(), RESULT),
    }
    found: dict[str, list[Any]] = {name: [] for name in streams}
    for name, stream in streams.items():

        def write(batch: DataFrame, _: int, name: str = name) -> None:
            found[name].extend(tuple(row.value) for row in batch.collect())

        stream.add_sink(write)
    env.execute("bounded windows")
    assert {name: sorted(rows) for name, rows in found.items()} == {
        "tumbling": [("hi", 0, 4), ("hi", 5, 3), ("hi", 15, 1)],
        "sliding": [
            ("hi", -2, 2),
            ("hi", 0, 4),
            ("hi", 2, 4),
            ("hi", 4, 3),
            ("hi", 6, 2),
            ("hi", 8, 2),
            ("hi", 12, 1),
            ("hi", 14, 1),
        ],
        "sessions": [("hi", 1, 5), ("hi", 8, 2), ("hi", 15, 1)],
        "own gaps": [("hi", 1, 8)],
        "counts": [("hi", 0, 6), ("hi", 1, 17)],
        "all": [("all", 0, 4), ("all", 5, 3), ("all", 15, 1)],
    }


def test_live_windows_are_queried_by_key_and_window_and_late_elements_leave(
    env: StreamExecutionEnvironment, feed: MakeFeed, connect: Connect
) -> None:
    source = feed("k STRING, t LONG")
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(100))
    late = OutputTag("late", ELEMENT)
    stream = (
        env.from_dataframe(source.dataframe())
        .map(lambda row: (row.k, row.t), ELEMENT)
        .assign_timestamps_and_watermarks(strategy.with_timestamp_assigner(SecondColumn()))
        .key_by(lambda each: each[0], Types.STRING())
        .window(TumblingEventTimeWindows.of(Time.seconds(1)))
        .side_output_late_data(late)
        .aggregate(Sum(), output_type=Types.LONG(), queryable_name="sums")
    )
    found: dict[str, list[Any]] = {"fired": [], "late": []}
    stream.add_sink(lambda batch, _: found["fired"].extend(row.value for row in batch.collect()))
    stream.get_side_output(late).add_sink(
        lambda batch, _: found["late"].extend(tuple(row.value) for row in batch.collect())
    )
    source.add({"k": "a", "t": 100}, {"k": "a", "t": 900}, {"k": "a", "t": 1_050})
    job = env.execute_async("live windows")
    client = connect(job)
    first, second = TimeWindow(0, 1_000), TimeWindow(1_000, 2_000)

    def live(window: TimeWindow) -> Any:
        try:
            (state,) = client.get_kv_states(job.job_id, "sums", ["a"], window=window)
        except UnknownStateError:
            # The first batch registers the state.
            return None
        return None if state is None else state.get()

    until(lambda: live(first) == 1_000 and live(second) == 1_050)
    assert found["fired"] == []
    source.add({"k": "a", "t": 1_200})
    until(lambda: found["fired"] == [1_000])
    until(lambda: live(first) is None and live(second) == 2_250)
    source.add({"k": "a", "t": 300})
    until(lambda: found["late"] == [("a", 300)])
    job.cancel()
