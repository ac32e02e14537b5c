"""Random stateful operators over one or two random inputs of numbers and times."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import pandas as pd
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.streaming.state import GroupState, GroupStateTimeout
from tests.native_state.programs.fixture import STATE_STORE
from tests.native_state.programs.queries import processors
from tests.native_state.programs.queries.key_types import VALUES
from tests.native_state.random_queries.random_keys import PANDAS_KEYS, keyed, random_keys

if TYPE_CHECKING:
    from random import Random

    from pyspark.sql import DataFrame
    from tests.native_state.programs.written_query import Plan

INPUT = "n BIGINT, v BIGINT, at TIMESTAMP"
Read = Callable[[str], "DataFrame"]

_FORMAT = "spark.sql.streaming.{}.stateFormatVersion"


@dataclass(frozen=True, kw_only=True)
class RandomOperator:
    """The plan of one query; each input has the columns of `INPUT`."""

    name: str
    plan: Plan
    inputs: tuple[str, ...] = ("first",)
    output_mode: str = "update"
    once: bool = False
    settings: Mapping[str, str] = field(default_factory=dict)
    needs_rocksdb: bool = False


@dataclass(frozen=True)
class _Drawn:
    """What operators share: how keys are drawn and inputs read."""

    random: Random
    not_strict: bool

    def keys(self, **options: Any) -> dict[str, str]:
        if self.not_strict:
            options["columns"] = self.random.choice((2, 3))
        return random_keys(self.random, **options)

    def stream(self, keys: Mapping[str, str], delay_s: int) -> Callable[[Read, str], DataFrame]:
        """Reads an input with its key columns, in the partitions of the first one if not strict."""
        by_part, extra = self.not_strict, [value_of(self.random) for _ in range(2)]

        def frame(read: Read, name: str) -> DataFrame:
            timed = read(name).withWatermark("at", f"{delay_s} seconds")
            found = keyed(timed, keys, "v", "at", "n", f"{extra[0]} AS x0", f"{extra[1]} AS x1")
            return found.repartition("k0") if by_part else found

        return frame


def value_of(random: Random) -> str:
    """SQL of a value of any type, null for some `n`."""
    # The expressions are made for small numbers.
    value = re.sub(r"\bn\b", "(n % 40)", VALUES[random.choice(list(VALUES))])
    return f"CASE WHEN n % 7 = 3 THEN NULL ELSE {value} END"


def _aggregates(random: Random) -> list[str]:
    every = [
        *("count(*)", "sum(v)", "avg(v)", "min(v)", "first(x0)", "last(x1)", "last(x0, true)"),
        *("stddev(v)", "count_if(v > 50)", "bool_or(v = 7)", "sum(CAST(v AS DECIMAL(20, 2)))"),
        *("max_by(v, at)", "collect_list(v)", "collect_set(v % 5)", "approx_count_distinct(n)"),
    ]
    return random.sample(every, random.randint(1, 4))


def _named(aggregates: list[str]) -> list[Any]:
    return [F.expr(each).alias(f"a{number}") for number, each in enumerate(aggregates)]


def aggregation(drawn: _Drawn) -> RandomOperator:
    """By keys alone, for ever."""
    random, keys = drawn.random, drawn.keys()
    stream, aggregates = drawn.stream(keys, 60), _aggregates(random)

    def plan(read: Read) -> DataFrame:
        return stream(read, "first").groupBy(*keys).agg(*_named(aggregates))

    return RandomOperator(
        name="aggregation",
        plan=plan,
        output_mode=random.choice(("update", "complete")),
        settings={_FORMAT.format("aggregation"): random.choice("12")},
    )


def windows(drawn: _Drawn) -> RandomOperator:
    """By keys and tumbling or sliding windows, which the watermark evicts."""
    random, keys = drawn.random, drawn.keys()
    stream, aggregates = drawn.stream(keys, random.choice((0, 60))), _aggregates(random)
    window = random.choice(
        (
            ("1 minute",),
            ("90 seconds", "30 seconds"),
            ("1 minute", "1 minute", "7 seconds"),
            ("250 microseconds",),
        )
    )

    def plan(read: Read) -> DataFrame:
        grouped = stream(read, "first").groupBy(F.window("at", *window), *keys)
        return grouped.agg(*_named(aggregates))

    return RandomOperator(
        name="windows",
        plan=plan,
        output_mode=random.choice(("update", "append")),
        settings={_FORMAT.format("aggregation"): random.choice("12")},
    )


def sessions(drawn: _Drawn) -> RandomOperator:
    """Session windows of one gap, or of a gap for each element."""
    random, keys = drawn.random, drawn.keys()
    stream, aggregates = drawn.stream(keys, random.choice((20, 90))), _aggregates(random)
    gap = random.choice(
        (
            "'30 seconds'",
            "'1 millisecond'",
            "CASE WHEN v % 2 = 0 THEN '9 seconds' ELSE '1 minute' END",
        )
    )
    merges = "spark.sql.streaming.sessionWindow.merge.sessions.in.local.partition"

    def plan(read: Read) -> DataFrame:
        grouped = stream(read, "first").groupBy(*keys, F.session_window("at", F.expr(gap)))
        return grouped.agg(*_named(aggregates))

    return RandomOperator(
        name="sessions",
        plan=plan,
        output_mode="append",
        settings={merges: random.choice(("true", "false"))},
    )


def duplicates(drawn: _Drawn) -> RandomOperator:
    """Keys seen: for ever, until their time has passed, or for the delay of the watermark."""
    random, keys = drawn.random, drawn.keys()
    stream = drawn.stream(keys, random.choice((30, 120)))
    kind = random.choice(("ever", "time", "within"))

    def plan(read: Read) -> DataFrame:
        frame = stream(read, "first")
        if kind == "within":
            return frame.dropDuplicatesWithinWatermark(list(keys))
        return frame.dropDuplicates([*keys, "at"] if kind == "time" else list(keys))

    return RandomOperator(name=f"duplicates-{kind}", plan=plan)


def join(drawn: _Drawn) -> RandomOperator:
    """Two streams by all key columns, within some time, of any kind of join."""
    random, keys = drawn.random, drawn.keys()
    stream = drawn.stream(keys, 60)
    how = random.choice(("inner", "inner", "left_outer", "right_outer", "full_outer", "left_semi"))
    in_time = how != "inner" or random.random() < 0.5
    version = random.choice("234")

    def plan(read: Read) -> DataFrame:
        left, right = stream(read, "first"), stream(read, "second")
        right = right.select(*(F.col(name).alias(f"r_{name}") for name in right.columns))
        condition = F.lit(True)
        for name in keys:
            condition = condition & (F.col(name) == F.col(f"r_{name}"))
        if in_time:
            later = F.expr("r_at BETWEEN at - INTERVAL 30 SECONDS AND at + INTERVAL 1 MINUTE")
            condition = condition & later
        return left.join(right, condition, how)

    return RandomOperator(
        name=f"join-{how}-v{version}",
        plan=plan,
        inputs=("first", "second"),
        output_mode="append",
        needs_rocksdb=version != "2",
        settings={
            _FORMAT.format("join"): version,
            f"{STATE_STORE}.skipNullsForStreamStreamJoins.enabled": random.choice(
                ("true", "false")
            ),
        },
    )


def groups(drawn: _Drawn) -> RandomOperator:
    """applyInPandasWithState with and without timeouts; its state is removed now and then."""
    random, keys = drawn.random, drawn.keys(of=PANDAS_KEYS)
    stream = drawn.stream(keys, 30)
    timeout = random.choice(
        (
            GroupStateTimeout.NoTimeout,
            GroupStateTimeout.EventTimeTimeout,
            GroupStateTimeout.ProcessingTimeTimeout,
        )
    )
    every = random.choice((3, 7))

    def count(
        key: tuple[Any, ...], frames: Iterator[pd.DataFrame], state: GroupState
    ) -> Iterator[pd.DataFrame]:
        if state.hasTimedOut:
            state.remove()
            return
        n, last, total = state.get if state.exists else (0, None, 0.0)
        for frame in frames:
            n, total = n + len(frame), total - float(frame["v"].sum())
            last = None if n % 5 == 0 else str(frame["v"].max()) + "é\0"
        if n % every == 0:
            state.remove()
        else:
            state.update((n, last, float("nan") if n % 4 == 0 else total))
            if timeout == GroupStateTimeout.EventTimeTimeout:
                state.setTimeoutTimestamp(state.getCurrentWatermarkMs() + 90_000)
            elif timeout == GroupStateTimeout.ProcessingTimeTimeout:
                state.setTimeoutDuration(3_600_000 if n % 2 else 1)
        yield pd.DataFrame({"n": [n]})

    def plan(read: Read) -> DataFrame:
        grouped = stream(read, "first").select(*keys, "v", "at").groupBy(*keys)
        return grouped.applyInPandasWithState(
            count, "n BIGINT", "n BIGINT, last STRING, total DOUBLE", "update", timeout
        )

    return RandomOperator(
        name=f"groups-{timeout}",
        plan=plan,
        once=timeout == GroupStateTimeout.ProcessingTimeTimeout,
        # Spark fails on its own rows of format 1 with timeouts of processing time.
        settings={
            _FORMAT.format("flatMapGroupsWithState"): random.choice(
                "12" if timeout == GroupStateTimeout.EventTimeTimeout else "2"
            )
        },
    )


class _AnyKey:
    """Answers of a processor whose key may be of any type."""

    def _answer(self, key: Any, n: int) -> Any:
        return pd.DataFrame({"sensor": [str(key)], "count": [n]})


class _Plain(_AnyKey, processors.PandasSensor):
    """Value, list and map."""


class _Ttl(_AnyKey, processors.PandasTtl):
    """The same with a TTL."""


class _EventTimers(_AnyKey, processors.PandasEventTimers):
    """The same with timers of event time."""


class _ProcessingTimers(_AnyKey, processors.PandasProcessingTimers):
    """The same with timers of processing time."""


class _Odd(_AnyKey, processors.PandasSensor):
    """A map with odd keys, a list of odd values, and a value of one column, as well."""

    def init(self, handle: Any) -> None:
        super().init(handle)
        self._odd_map = handle.getMapState("odd_map", "k STRING, i INT", "d DOUBLE, b BINARY")
        self._odd_list = handle.getListState("odd_list", "s STRING, d DOUBLE")
        self._one = handle.getValueState("one", "value STRING")

    def _more(self, key: Any, values: list[int], timers: Any) -> None:
        texts = ("", "e\u0301", "é", "a\0", "\U0001f511", None)
        for value in values:
            text, zero = texts[value % 6], (-0.0, 0.0, float("nan"))[value % 3]
            self._odd_map.updateValue((text, value % 2), (zero, bytes([value % 256])))
            self._odd_list.appendValue((text, zero))
        if values[0] % 3:
            self._one.update((texts[values[0] % 5],))
        else:
            self._one.clear()


class _OnRows(processors._Sensor):
    """Value, list and map, on rows."""

    def _answer(self, key: Any, n: int) -> Any:
        return Row(sensor=str(key), count=n)


_PROCESSORS: dict[str, tuple[Any, str]] = {
    "plain": (_Plain, "None"),
    "ttl": (_Ttl, "ProcessingTime"),
    "event-timers": (_EventTimers, "EventTime"),
    "processing-timers": (_ProcessingTimers, "ProcessingTime"),
    "odd": (_Odd, "None"),
    "rows": (_OnRows, "None"),
}


def processor(drawn: _Drawn) -> RandomOperator:
    """transformWithState in pandas or on rows."""
    random = drawn.random
    keys = drawn.keys(of=PANDAS_KEYS, most=17)
    stream = drawn.stream(keys, 30)
    kind = random.choice(list(_PROCESSORS))
    made, mode = _PROCESSORS[kind]
    output = "sensor STRING, count BIGINT"

    def plan(read: Read) -> DataFrame:
        frame = stream(read, "first").select(*keys, F.col("v").alias("value"), "at")
        grouped = frame.groupBy(*keys)
        if kind == "rows":
            return grouped.transformWithState(made(), output, "Update", mode)
        return grouped.transformWithStateInPandas(made(), output, "Update", mode)

    return RandomOperator(
        name=f"processor-{kind}",
        plan=plan,
        once=mode == "ProcessingTime",
        needs_rocksdb=True,
        settings={f"{STATE_STORE}.encodingFormat": random.choice(("unsaferow", "avro"))},
    )


def chained(drawn: _Drawn) -> RandomOperator:
    """Deduplication, windows by key, and windows over all of them."""
    keys = drawn.keys()
    stream = drawn.stream(keys, 30)

    def plan(read: Read) -> DataFrame:
        seen = stream(read, "first").dropDuplicatesWithinWatermark(["n", "v"])
        minutes = seen.groupBy(*keys, F.window("at", "1 minute")).agg(F.sum("v").alias("s"))
        times = minutes.groupBy(F.window(F.window_time("window"), "5 minutes"))
        return times.agg(F.count("*").alias("n"), F.max("s").alias("m"))

    return RandomOperator(name="chained", plan=plan, output_mode="append")


def side_by_side(drawn: _Drawn) -> RandomOperator:
    """Two aggregations by different keys in one query."""
    random = drawn.random
    both = [(drawn.keys(), _aggregates(random)) for _ in range(2)]
    streams = [drawn.stream(keys, 60) for keys, _ in both]

    def plan(read: Read) -> DataFrame:
        one, other = (
            stream(read, "first").groupBy(*keys).agg(F.count("*").alias("c"), *_named(aggregates))
            for stream, (keys, aggregates) in zip(streams, both, strict=True)
        )
        return one.select("c").union(other.select("c"))

    # Aggregations side by side need no order, which Spark does not see.
    return RandomOperator(
        name="side-by-side",
        plan=plan,
        settings={"spark.sql.streaming.unsupportedOperationCheck": "false"},
    )


_OPERATORS = (
    *(aggregation, windows, sessions, duplicates, join, groups, processor),
    *(sessions, processor, chained, side_by_side),
)


def random_operator(random: Random, *, not_strict: bool) -> RandomOperator:
    """An operator, with keys that Spark places by the first column alone if `not_strict`."""
    operator = random.choice(_OPERATORS)(_Drawn(random, not_strict))
    return replace(operator, plan=lambda read: _writable(operator.plan(read)))


def _writable(frame: DataFrame) -> DataFrame:
    """The frame with times of day as texts: Spark's sinks do not take them."""
    return frame.select(
        *(
            F.col(each.name).cast("string")
            if each.dataType.simpleString().startswith("time(")
            else F.col(each.name)
            for each in frame.schema.fields
        )
    )
