"""Windows of a program with PyFlink's imports: functions, triggers and streams without keys."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.jobs.test_pyflink_program import alias, names_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["alias"]

PROGRAM = textwrap.dedent(
    '''
    from pyflink.common import Time, Types, WatermarkStrategy
    from pyflink.common.watermark_strategy import TimestampAssigner
    from pyflink.datastream import (
        AggregateFunction,
        ProcessWindowFunction,
        StreamExecutionEnvironment,
    )
    from pyflink.datastream.functions import ProcessAllWindowFunction
    from pyflink.datastream.window import (
        CountTrigger,
        EventTimeSessionWindows,
        EventTimeTrigger,
        GlobalWindows,
        PurgingTrigger,
        TumblingEventTimeWindows,
    )

    PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
    COUNTED = Types.TUPLE([Types.STRING(), Types.LONG(), Types.LONG(), Types.INT()])


    class SecondField(TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return value[1]


    class Counts(ProcessWindowFunction):
        def process(self, key, context: ProcessWindowFunction.Context, elements):
            return [(key, context.window().start, context.window().end, len(list(elements)))]


    class Lengths(ProcessWindowFunction):
        def process(self, key, context, elements):
            return [(key, len(list(elements)))]


    class Described(ProcessWindowFunction):
        def process(self, key, context, elements):
            yield f"{key} from {context.window().start}: {next(iter(elements))}"


    class DescribedAll(ProcessAllWindowFunction):
        def process(self, context: "ProcessAllWindowFunction.Context", elements):
            yield f"from {context.window().start}: {next(iter(elements))}"


    class EvenLessOdd(AggregateFunction):
        """The number of even values less that of odd ones; its accumulator is pickled."""

        def create_accumulator(self):
            return "", {0: 0, 1: 0}

        def add(self, value, accumulator):
            accumulator[1][value[1] % 2] += 1
            return value[0], accumulator[1]

        def get_result(self, accumulator):
            return accumulator[0], accumulator[1][0] - accumulator[1][1]

        def merge(self, acc_a, acc_b):
            return acc_a[0], {parity: acc_a[1][parity] + acc_b[1][parity] for parity in (0, 1)}


    class Sum(AggregateFunction):
        def create_accumulator(self):
            return 0, ""

        def add(self, value, accumulator):
            return accumulator[0] + value[1], value[0]

        def get_result(self, accumulator):
            return accumulator[1], accumulator[0]

        def merge(self, acc_a, acc_b):
            return acc_a[0] + acc_b[0], acc_a[1]


    def first_of(value):
        return value[0]


    def added(one, other):
        return other[0], one[1] + other[1]


    def declared():
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(1)
        in_order = WatermarkStrategy.for_monotonous_timestamps()

        def timed(elements):
            stream = env.from_collection(elements, type_info=PAIR)
            return stream.assign_timestamps_and_watermarks(
                in_order.with_timestamp_assigner(SecondField())
            )

        source = timed([("a", 1), ("a", 2), ("b", 3), ("a", 6), ("b", 8), ("b", 9), ("a", 15)])
        sessions = EventTimeSessionWindows.with_gap(Time.milliseconds(2))
        keyed = source.key_by(first_of, key_type=Types.STRING()).window(sessions)
        every = source.window_all(sessions)
        unordered = timed([("hi", 0), ("hi", 8), ("hi", 4)]).key_by(first_of, Types.STRING())
        purging = PurgingTrigger.of(EventTimeTrigger.create())
        number = PurgingTrigger.of(CountTrigger.of(2))
        sums = {"accumulator_type": Types.TUPLE([Types.INT(), Types.STRING()])}
        texts = {"output_type": Types.STRING()}
        by_parity = source.key_by(lambda value: (value[0], value[1] % 2)).window(
            TumblingEventTimeWindows.of(Time.milliseconds(10))
        )
        return env, {
            "reduce": keyed.reduce(added, output_type=PAIR),
            "reduce, process": keyed.reduce(added, window_function=Described(), **texts),
            "aggregate": keyed.aggregate(EvenLessOdd(), output_type=PAIR),
            "aggregate, typed": keyed.aggregate(Sum(), output_type=PAIR, **sums),
            "aggregate, process": keyed.aggregate(
                Sum(), window_function=Described(), **sums, **texts
            ),
            "late merge": unordered.window(
                EventTimeSessionWindows.with_gap(Time.milliseconds(5))
            ).process(Counts(), COUNTED),
            "purging": keyed.trigger(purging).process(Counts(), COUNTED),
            "global": source.key_by(first_of, key_type=Types.STRING())
            .window(GlobalWindows.create())
            .trigger(number)
            .process(Lengths(), PAIR),
            "all, reduce": every.reduce(added, output_type=PAIR),
            "all, reduce, process": every.reduce(added, window_function=DescribedAll(), **texts),
            "all, aggregate": every.aggregate(EvenLessOdd(), output_type=PAIR),
            "all, aggregate, process": every.aggregate(
                Sum(), window_function=DescribedAll(), **sums, **texts
            ),
            "chained": by_parity.reduce(added, output_type=PAIR).map(
                lambda value: (value[0].upper(), value[1]), output_type=PAIR
            ),
        }
    '''
)


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("alias")
def test_every_function_of_windows_works_with_and_without_keys(spark: SparkSession) -> None:
    env, streams = names_of(PROGRAM)["declared"]()
    found: dict[str, list[Any]] = {name: [] for name in streams}
    for name, stream in streams.items():

        def write(batch: DataFrame, _: int, name: str = name) -> None:
            found[name].extend(row[0] if len(row) == 1 else tuple(row) for row in batch.collect())

        stream.add_sink(write)
    env.execute("windows of PyFlink")
    plain = {
        name: sorted(each if isinstance(each, str) else tuple(each) for each in rows)
        for name, rows in found.items()
    }
    assert plain == {
        "reduce": [("a", 3), ("a", 6), ("a", 15), ("b", 3), ("b", 17)],
        "reduce, process": [
            "a from 15: ('a', 15)",
            "a from 1: ('a', 3)",
            "a from 6: ('a', 6)",
            "b from 3: ('b', 3)",
            "b from 8: ('b', 17)",
        ],
        "aggregate": [("a", -1), ("a", 0), ("a", 1), ("b", -1), ("b", 0)],
        "aggregate, typed": [("a", 3), ("a", 6), ("a", 15), ("b", 3), ("b", 17)],
        "aggregate, process": [
            "a from 15: ('a', 15)",
            "a from 1: ('a', 3)",
            "a from 6: ('a', 6)",
            "b from 3: ('b', 3)",
            "b from 8: ('b', 17)",
        ],
        "late merge": [("hi", 0, 13, 3)],
        "purging": [
            ("a", 1, 4, 2),
            ("a", 6, 8, 1),
            ("a", 15, 17, 1),
            ("b", 3, 5, 1),
            ("b", 8, 11, 2),
        ],
        "global": [("a", 2), ("a", 2), ("b", 2)],
        "all, reduce": [("a", 15), ("b", 6), ("b", 23)],
        "all, reduce, process": [
            "from 15: ('a', 15)",
            "from 1: ('b', 6)",
            "from 6: ('b', 23)",
        ],
        "all, aggregate": [("a", -1), ("b", -1), ("b", 1)],
        "all, aggregate, process": [
            "from 15: ('a', 15)",
            "from 1: ('b', 6)",
            "from 6: ('b', 23)",
        ],
        "chained": [("A", 1), ("A", 8), ("A", 15), ("B", 8), ("B", 12)],
    }
