"""A job with every kind of operator over two sources, and its result computed in plain Python.

Where its sources meet its functions commute, so that no split of the input changes the result.
"""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

from pyspark import cloudpickle

from queryable_state.client import ValueState
from queryable_state.streaming import (
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    MapStateDescriptor,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from random import Random

    from pyspark.sql import DataFrame, SparkSession
    from tests.spark.feed import Feed

    from queryable_state.client.blocking import QueryableStateClient
    from queryable_state.streaming import JobClient, StreamExecutionEnvironment

# Executors need not have the tests on their path.
cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]

SCHEMA = "k string, g bigint, v bigint"
KEYS = [f"k{number}" for number in range(8)]
GROUPS = range(5)
INITIAL = [("k0", 1000), ("k7", 7000)]
_NAMES = ("union", "net", "highest", "started")

Row = dict[str, Any]


def random_rows(random: Random, count: int) -> list[Row]:
    return [
        {"k": random.choice(KEYS), "g": random.choice(GROUPS), "v": random.randint(1, 99)}
        for _ in range(count)
    ]


def random_split(random: Random, rows: Sequence[Row]) -> list[Sequence[Row]]:
    """One to four batches, of which some may be empty."""
    cuts = sorted(random.randint(0, len(rows)) for _ in range(random.randint(0, 3)))
    edges = [0, *cuts, len(rows)]
    return [rows[start:end] for start, end in itertools.pairwise(edges)]


def _queryable(name: str) -> ValueStateDescriptor[int]:
    descriptor = ValueStateDescriptor(name, Types.LONG())
    descriptor.set_queryable(name)
    return descriptor


def limits() -> MapStateDescriptor[int, int]:
    descriptor = MapStateDescriptor("limits", Types.LONG(), Types.LONG())
    descriptor.set_queryable("limits")
    return descriptor


class Net(KeyedCoProcessFunction):
    """Adds the first stream, subtracts the second."""

    def open(self, runtime_context: Any) -> None:
        self.net = runtime_context.get_state(_queryable("net"))

    def process_element1(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.net.update((self.net.value() or 0) + value.v)
        yield value.k, value.v

    def process_element2(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.net.update((self.net.value() or 0) - value.v)
        yield value.k, -value.v


class Highest(KeyedBroadcastProcessFunction):
    """The greatest value of a key, and the greatest limit of a group on every subtask."""

    def open(self, runtime_context: Any) -> None:
        self.highest = runtime_context.get_state(_queryable("highest"))

    def process_element(self, value: Any, ctx: Any) -> None:
        self.highest.update(max(value.v, self.highest.value() or 0))

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        known = ctx.get_broadcast_state(limits())
        known[value.g] = max(value.v, known.get(value.g) or 0)


class Started(KeyedProcessFunction):
    """A sum that starts from the initial state."""

    def open(self, runtime_context: Any) -> None:
        self.sum = runtime_context.get_state(_queryable("started"))

    def handle_initial_state(self, value: Any, ctx: Any) -> None:
        self.sum.update((self.sum.value() or 0) + value.start)

    def process_element(self, value: Any, ctx: Any) -> None:
        self.sum.update((self.sum.value() or 0) + value.v)


def run_job(
    env: StreamExecutionEnvironment,
    spark: SparkSession,
    name: str,
    feeds: tuple[Feed, Feed],
    batches: tuple[Sequence[Sequence[Row]], Sequence[Sequence[Row]]],
) -> tuple[JobClient, Counter[Any]]:
    """Declares and runs the job on these batches; returns it running, and what its sink got."""
    emitted: Counter[Any] = Counter()

    def collect(frame: DataFrame, batch_id: int) -> None:
        emitted.update(tuple(row) for row in frame.collect())

    first, second = (env.from_dataframe(feed.dataframe()) for feed in feeds)
    one, two = first.key_by("k"), second.key_by("k")
    first.union(second).key_by("k").aggregate_sum("v", queryable_name="union").uid("union")
    first.key_by("g").aggregate_sum("v", queryable_name="by_group").uid("by_group")
    one.connect(two).process(Net(), "k string, v bigint").uid("net").add_sink(collect)
    one.connect(second.broadcast(limits())).process(Highest(), "k string").uid("highest")
    initial = spark.createDataFrame(INITIAL, "k string, start bigint")
    one.process(Started(), "k string", initial_state=initial).uid("started")
    for feed, parts in zip(feeds, batches, strict=True):
        for part in parts:
            feed.add(*part)
    job = env.execute_async(name)
    job.process_all_available()
    return job, emitted


def _value(state: Any) -> Any:
    return state.value() if isinstance(state, ValueState) else state.get()


def found_in(client: QueryableStateClient, job: JobClient) -> dict[str, Any]:
    """All states of the job, by queryable name."""

    def read(name: str, keys: Iterable[Any]) -> dict[Any, Any]:
        wanted = list(keys)
        found = client.get_kv_states(job.job_id, name, wanted)
        return {key: _value(state) for key, state in zip(wanted, found, strict=True) if state}

    return {
        **{name: read(name, KEYS) for name in _NAMES},
        "by_group": read("by_group", GROUPS),
        "limits": [client.get_operator_state(job.job_id, "limits", each).get() for each in (0, 1)],
    }


def expected_of(first: Sequence[Row], second: Sequence[Row]) -> tuple[dict[str, Any], Counter[Any]]:
    """The states and the outputs, computed in plain Python."""
    states: dict[str, Counter[Any]] = {name: Counter() for name in (*_NAMES, "by_group", "limits")}
    states["started"].update(dict(INITIAL))
    for row in first:
        k, g, v = row["k"], row["g"], row["v"]
        for name in ("union", "net", "started"):
            states[name][k] += v
        states["by_group"][g] += v
        states["highest"][k] = max(v, states["highest"][k])
    for row in second:
        k, g, v = row["k"], row["g"], row["v"]
        states["union"][k] += v
        states["net"][k] -= v
        states["limits"][g] = max(v, states["limits"][g])
    emitted = Counter([(r["k"], r["v"]) for r in first] + [(r["k"], -r["v"]) for r in second])
    found: dict[str, Any] = {name: dict(values) for name, values in states.items()}
    return {**found, "limits": [found["limits"]] * 2}, emitted
