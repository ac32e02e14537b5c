"""User functions of the tests."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from queryable_state.streaming import (
    AggregateFunction,
    AggregatingStateDescriptor,
    BatchKeys,
    BatchRuntimeContext,
    BatchState,
    KeyedBatchProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming import TypeInfo
    from queryable_state.streaming.functions import Context

READINGS = "sensor string, temperature double"
COUNTS = Types.ROW_NAMED(["sensor", "count"], [Types.STRING(), Types.LONG()])


class BatchTotals(KeyedBatchProcessFunction):
    """Sums of temperatures on Arrow columns; emits the sum of each key of a chunk."""

    def open(self, runtime_context: BatchRuntimeContext) -> None:
        descriptor = ValueStateDescriptor("total", Types.DOUBLE())
        descriptor.set_queryable("batch-totals")
        self.total = runtime_context.get_state(descriptor)

    def process_batch(self, keys: BatchKeys, table: pa.Table, state: BatchState) -> pa.Table:
        total = state["total"].values().fill_null(0.0).to_numpy().copy()
        np.add.at(total, keys.indices.to_numpy(), table["temperature"].to_numpy())
        self.total.update(total)
        return pa.record_batch({"total": pa.array(total), "sensor": keys.values})


class CountPerKey(KeyedProcessFunction):
    """Counts the elements of a key in a state that is queryable; puts out each count."""

    def __init__(self, queryable_name: str = "count", log: str | None = None) -> None:
        self.queryable_name = queryable_name
        self.log = log

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("count", Types.LONG())
        descriptor.set_queryable(self.queryable_name)
        self.count = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: Context) -> Iterator[tuple[str, int]]:
        self.count.update((self.count.value() or 0) + 1)
        if self.log is not None:
            with Path(self.log).open("a") as log:
                log.write(f"{ctx.get_current_key()}\n")
        yield value.sensor, self.count.value() or 0


class CountWithFailures(CountPerKey):
    """Fails the first attempt of each task after it has processed an element."""

    def process_element(self, value: Any, ctx: Context) -> Iterator[tuple[str, int]]:
        yield from super().process_element(value, ctx)
        task = TaskContext.get()
        if task is not None and task.attemptNumber() == 0:
            raise RuntimeError("the first attempt always fails")


class CollectionSize(KeyedProcessFunction):
    """Puts out how many objects a collection in the worker would look at, and how many not."""

    def process_element(self, value: Any, ctx: Context) -> Iterator[tuple[str, int, int]]:
        yield value.sensor, len(gc.get_objects()), gc.get_freeze_count()


class RaisingOn(KeyedProcessFunction):
    """Raises on one key."""

    def __init__(self, key: str) -> None:
        self.key = key

    def process_element(self, value: Any, ctx: Context) -> None:
        if ctx.get_current_key() == self.key:
            raise ZeroDivisionError("the sensor is broken")


class OpenableOnlyInTasks(CountPerKey):
    """Cannot be opened in the driver."""

    def open(self, runtime_context: RuntimeContext) -> None:
        if TaskContext.get() is None:
            raise OSError("only executors have the model file")
        super().open(runtime_context)


class NamesTwice(KeyedProcessFunction):
    """Makes two states queryable under one name."""

    def open(self, runtime_context: RuntimeContext) -> None:
        for name in ("first", "second"):
            descriptor = ValueStateDescriptor(name, Types.LONG())
            descriptor.set_queryable("same")
            runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: Context) -> None:
        """Nothing."""


class Mean(AggregateFunction[float, "tuple[float, int]", float]):
    """Mean of numbers."""

    def create_accumulator(self) -> tuple[float, int]:
        return 0.0, 0

    def add(self, value: float, accumulator: tuple[float, int]) -> tuple[float, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[float, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[float, int], acc_b: tuple[float, int]) -> tuple[float, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


class EveryState(KeyedProcessFunction):
    """Writes the temperature to a state of each kind, all of them queryable."""

    def open(self, runtime_context: RuntimeContext) -> None:
        value = ValueStateDescriptor("value", Types.DOUBLE())
        items = ListStateDescriptor("list", Types.DOUBLE())
        entries = MapStateDescriptor("map", Types.LONG(), Types.LONG())
        highest = ReducingStateDescriptor("reducing", max, Types.DOUBLE())
        mean = AggregatingStateDescriptor(
            "aggregating", Mean(), Types.TUPLE([Types.DOUBLE(), Types.LONG()]), Types.DOUBLE()
        )
        for descriptor in (value, items, entries, highest, mean):
            descriptor.set_queryable(descriptor.name)
        self.value = runtime_context.get_state(value)
        self.items = runtime_context.get_list_state(items)
        self.entries = runtime_context.get_map_state(entries)
        self.highest = runtime_context.get_reducing_state(highest)
        self.mean = runtime_context.get_aggregating_state(mean)

    def process_element(self, value: Any, ctx: Context) -> None:
        temperature = value.temperature
        self.value.update(temperature)
        self.items.add(temperature)
        degrees = int(temperature)
        self.entries.put(degrees, (self.entries.get(degrees) or 0) + 1)
        self.highest.add(temperature)
        self.mean.add(temperature)


class KeepsFields(KeyedProcessFunction):
    """Keeps a row; a field without a value gets the temperature of the element that comes."""

    def __init__(self, row: TypeInfo, dropped: tuple[str, ...] = ()) -> None:
        self.row = row
        self.dropped = dropped

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("kept", self.row)
        descriptor.set_queryable("kept")
        descriptor.set_dropped_fields(self.dropped)
        self.kept = runtime_context.get_state(descriptor)

    def process_element(self, value: Any, ctx: Context) -> None:
        old = self.kept.value()
        kept = (getattr(old, field.name, None) for field in self.row.fields)
        self.kept.update(tuple(int(value.temperature) if k is None else k for k in kept))


class TypeTeller(KeyedProcessFunction):
    """Puts out class and content of what it reads; writes what is not in its normal form."""

    def open(self, runtime_context: RuntimeContext) -> None:
        row = ValueStateDescriptor("row", "n BIGINT, f FLOAT")
        row.set_queryable("rows")
        entries = MapStateDescriptor("entries", "string", "float")
        entries.set_queryable("entries")
        self.row = runtime_context.get_state(row)
        self.list = runtime_context.get_state(ValueStateDescriptor("list", "ARRAY<FLOAT>"))
        self.entries = runtime_context.get_map_state(entries)

    def process_element(self, value: Any, ctx: Context) -> Iterator[tuple[str, str]]:
        row, numbers = self.row.value(), self.list.value()
        yield value.sensor, f"{type(row).__name__} {row} {numbers} {self.entries.items()}"
        self.row.update((True if row is None else row[0] + 1, value.temperature))
        if numbers is None:
            numbers = (value.temperature,)
            self.list.update(numbers)
        else:
            # Lost, as it is not written again.
            numbers.append(7.0)
        self.entries.put(str(value.temperature), None)
        self.entries.put("last", value.temperature)


class KeepsSequence(KeyedProcessFunction):
    """Keeps the numbers of the elements in the order they come."""

    def __init__(self, queryable_name: str) -> None:
        self.queryable_name = queryable_name

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ListStateDescriptor("sequence", Types.LONG())
        descriptor.set_queryable(self.queryable_name)
        self.sequence = runtime_context.get_list_state(descriptor)

    def process_element(self, value: Any, ctx: Context) -> None:
        self.sequence.add(value.n)


class StartingCount(CountPerKey):
    """Counts on from a number that is given for a key."""

    def handle_initial_state(self, value: Any, ctx: Context) -> None:
        self.count.update(value["count"])


class JoinThresholds(KeyedCoProcessFunction):
    """Counts the readings of a key above the threshold of the key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("threshold", Types.DOUBLE())
        descriptor.set_queryable("threshold")
        self.threshold = runtime_context.get_state(descriptor)
        self.alerts = runtime_context.get_state(ValueStateDescriptor("alerts", Types.LONG()))

    def process_element1(self, value: Any, ctx: Context) -> None:
        self.threshold.update(value.threshold)

    def process_element2(self, value: Any, ctx: Context) -> Iterator[tuple[str, int]]:
        threshold = self.threshold.value()
        if threshold is not None and value.temperature > threshold:
            self.alerts.update((self.alerts.value() or 0) + 1)
            yield value.sensor, self.alerts.value() or 0
