"""The aggregations by our operators, all with queryable state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from benchmarks.streaming import timer_variants
from benchmarks.streaming.batch_functions import TotalsByKey, TotalsByRow
from benchmarks.streaming.dataset import FILES_PER_BATCH
from benchmarks.streaming.session import source, source_of_part
from benchmarks.streaming.windows import variants as windows
from queryable_state.client import blocking
from queryable_state.streaming import (
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    from queryable_state.streaming import (
        DataStream,
        JobClient,
        OperatorStream,
        QueryableStateStream,
        RuntimeContext,
        StreamExecutionEnvironment,
    )
    from queryable_state.streaming.functions import Context

QUERYABLE_NAME = "totals"
TOTALS = Types.ROW_NAMED(["count", "total", "highest"], [Types.LONG(), Types.LONG(), Types.LONG()])
OUTPUT = Types.ROW_NAMED(
    ["key", "count", "total", "highest"],
    [Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()],
)

LIMITS = Types.ROW_NAMED(
    ["limit", "readings", "excess"], [Types.LONG(), Types.LONG(), Types.LONG()]
)
JOINED = Types.ROW_NAMED(["key", "value", "limit"], [Types.STRING(), Types.LONG(), Types.LONG()])


class Totals(KeyedProcessFunction):
    """Count, sum and maximum; `yields` makes it return a row for each element."""

    def __init__(self, *, yields: bool, ttl: StateTtlConfig | None = None) -> None:
        self.yields = yields
        self.ttl = ttl

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("totals", TOTALS)
        descriptor.set_queryable(QUERYABLE_NAME)
        if self.ttl is not None:
            descriptor.enable_time_to_live(self.ttl)
        self.totals = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: Context) -> Iterator[Any]:
        number = value.value
        count, total, highest = self.totals.value() or (0, 0, number)
        count += 1
        total += number
        if number > highest:
            highest = number
        self.totals.update((count, total, highest))
        if self.yields:
            yield (value.key, count, total, highest)


class NewestLimit(KeyedCoProcessFunction):
    """Joins each reading with the newest limit of its key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("limits", LIMITS)
        descriptor.set_queryable(QUERYABLE_NAME)
        self.limits = runtime_context.get_state(descriptor)

    def process_element1(self, value: Any, ctx: Context) -> None:
        _, readings, excess = self.limits.value() or (0, 0, 0)
        self.limits.update((value.value, readings, excess))

    def process_element2(self, value: Any, ctx: Context) -> Iterator[Any]:
        known = self.limits.value()
        if known is not None:
            limit, readings, excess = known
            self.limits.update((limit, readings + 1, excess + value.value - limit))
            yield (value.key, value.value, limit)


def sums(rows: DataStream) -> OperatorStream:
    """Two sums by the built-in aggregation: vectorised, one output row per key and batch."""
    return rows.key_by("key").aggregate_sum("ones", "value", queryable_name=QUERYABLE_NAME)


def row_a_row(rows: DataStream) -> OperatorStream:
    """A Python function called for each row, with one output row each time."""
    return rows.key_by("key").process(Totals(yields=True), OUTPUT)


def row_a_row_with_ttl(rows: DataStream) -> OperatorStream:
    """The same function; its values live for an hour after their last update."""
    ttl = StateTtlConfig.new_builder(Time.hours(1)).update_ttl_on_read_and_write().build()
    return rows.key_by("key").process(Totals(yields=True, ttl=ttl), OUTPUT)


def batch_by_row(rows: DataStream) -> OperatorStream:
    """A function on Arrow columns, with one output row for each row."""
    return rows.key_by("key").process_batch(TotalsByRow(QUERYABLE_NAME), OUTPUT)


def batch_by_key(rows: DataStream) -> OperatorStream:
    """A function on Arrow columns, with one output row for each key of a chunk."""
    return rows.key_by("key").process_batch(TotalsByKey(QUERYABLE_NAME), OUTPUT)


def state_alone(rows: DataStream) -> OperatorStream:
    """The same function without output rows."""
    return rows.key_by("key").process(Totals(yields=False), OUTPUT)


def state_in_order(rows: DataStream) -> OperatorStream:
    """The same function, with the rows of each key and batch ordered by a random column."""
    return rows.key_by("key", order_by="value").process(Totals(yields=False), OUTPUT)


def latest(rows: DataStream) -> QueryableStateStream:
    """The last row of each key, by a queryable sink."""
    return rows.key_by("key").as_queryable_state(QUERYABLE_NAME)


def latest_by(rows: DataStream) -> QueryableStateStream:
    """The row of each key with the greatest value, by a queryable sink."""
    return rows.key_by("key").as_queryable_state(QUERYABLE_NAME, latest_by="value")


def union(first: DataStream, second: DataStream) -> OperatorStream:
    """Two sums over the rows of two streams."""
    return sums(first.union(second))


def connect(limits: DataStream, readings: DataStream) -> OperatorStream:
    """A Python function called for each row of two streams, with one output row a reading."""
    return limits.key_by("key").connect(readings.key_by("key")).process(NewestLimit(), JOINED)


TWO_STREAMS = ("union", "connect")
TIMED = ("process-newest", "process-timers")
VARIANTS: dict[str, Callable[..., OperatorStream | QueryableStateStream]] = {
    "sums": sums,
    "latest": latest,
    "latest-by": latest_by,
    "process-row": row_a_row,
    "process-ttl": row_a_row_with_ttl,
    "process-batch": batch_by_key,
    "process-batch-row": batch_by_row,
    "process-state": state_alone,
    "process-ordered": state_in_order,
    "union": union,
    "connect": connect,
    **windows.OWN,
    "process-newest": timer_variants.newest,
    "process-timers": timer_variants.moved_timer,
}


def _value(state: Any) -> Iterable[int]:
    values: Iterable[int] = state.value()
    return values


_READS: dict[str, Callable[[Any], Iterable[int]]] = {
    "sums": lambda state: state.get(),
    "union": lambda state: state.get(),
    # The last row of a key in a batch is not deterministic.
    "latest": lambda _: (),
    "latest-by": lambda state: (state.value().value,),
}


def start(
    name: str, environment: StreamExecutionEnvironment, spark: SparkSession, data: Path, work: Path
) -> JobClient:
    """Starts a variant; its output rows are dropped."""
    columns: tuple[str, ...] = (
        ("key", "ones", "value") if name in ("sums", "union") else ("key", "value")
    )
    if name in TWO_STREAMS:
        frames = [source_of_part(spark, data, part) for part in range(FILES_PER_BATCH)]
    elif name in TIMED:
        frames, columns = [timer_variants.timed(spark, data)], ("key", "value", "ts")
    elif name in windows.OWN:
        frames, columns = [windows.rows_of(spark, data)], ("key", "value", "at")
    else:
        frames = [source(spark, data)]
    streams = [environment.from_dataframe(frame.select(*columns)) for frame in frames]
    VARIANTS[name](*streams).uid(name)
    return environment.execute_async(name, checkpoint_location=str(work / "checkpoint"))


def state_of(name: str, job: JobClient, keys: Sequence[str]) -> dict[str, list[int]]:
    """The state of the keys that have one, read by the blocking client."""
    host, port = job.proxy_address().rsplit(":", 1)
    with blocking.QueryableStateClient(host, int(port)) as client:
        states = client.get_kv_states(job.job_id, QUERYABLE_NAME, keys)
    read = _READS.get(name, _value)
    return {
        key: list(read(state)) for key, state in zip(keys, states, strict=True) if state is not None
    }
