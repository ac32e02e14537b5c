"""A typed program of a user: what mypy --strict reveals stands in the comment of each line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, reveal_type

from queryable_state.streaming import (
    AggregateFunction,
    AggregatingStateDescriptor,
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

    from queryable_state import client
    from queryable_state.client import blocking


@dataclass(frozen=True)
class Reading:
    degrees: float


class Mean(AggregateFunction[float, tuple[float, int], float]):
    def create_accumulator(self) -> tuple[float, int]:
        return 0.0, 0

    def add(self, value: float, accumulator: tuple[float, int]) -> tuple[float, int]:
        return accumulator[0] + value, accumulator[1] + 1

    def get_result(self, accumulator: tuple[float, int]) -> float:
        return accumulator[0] / accumulator[1]

    def merge(self, acc_a: tuple[float, int], acc_b: tuple[float, int]) -> tuple[float, int]:
        return acc_a[0] + acc_b[0], acc_a[1] + acc_b[1]


LAST = ValueStateDescriptor("last", Types.DOUBLE())
READINGS = ListStateDescriptor("readings", elem_type_info=Types.DOUBLE())
DAYS = MapStateDescriptor("days", key_type_info=Types.STRING(), value_type_info=Types.LONG())
GREATEST = ReducingStateDescriptor("greatest", lambda a, b: max(a, b), Types.DOUBLE())
MEAN = AggregatingStateDescriptor("mean", Mean(), result_type_info=Types.DOUBLE())
BY_DDL = ValueStateDescriptor[float]("by_ddl", "double")
UNKNOWN = ValueStateDescriptor("unknown", "double")
NESTED = ValueStateDescriptor("nested", Types.MAP(Types.STRING(), Types.LIST(Types.LONG())))
CLASSES = MapStateDescriptor("classes", str, Reading)

reveal_type(CLASSES)  # MapStateDescriptor[str, Reading]
reveal_type(LAST.type_info)  # TypeInfo[float]
reveal_type(READINGS.type_info)  # TypeInfo[list[float]]
reveal_type(DAYS.get_value_type_info())  # TypeInfo[int]
reveal_type(NESTED)  # ValueStateDescriptor[dict[str, list[int]]]
reveal_type(UNKNOWN)  # ValueStateDescriptor[Any]


class Temperatures(KeyedProcessFunction[str, tuple[str, float], float]):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(LAST)
        self.readings = runtime_context.get_list_state(READINGS)
        self.days = runtime_context.get_map_state(DAYS)
        self.greatest = runtime_context.get_reducing_state(GREATEST)
        self.mean = runtime_context.get_aggregating_state(MEAN)
        reveal_type(self.last)  # ValueState[float]
        reveal_type(self.readings)  # ListState[float]
        reveal_type(self.days)  # MapState[str, int]
        reveal_type(self.greatest)  # ReducingState[float]
        reveal_type(self.mean)  # AggregatingState[float, float]
        reveal_type(runtime_context.get_state(BY_DDL))  # ValueState[float]

    def process_element(
        self, value: tuple[str, float], ctx: KeyedProcessFunction.Context[str]
    ) -> Iterator[float]:
        reveal_type(ctx.get_current_key())  # str
        reveal_type(self.last.value())  # float | None
        reveal_type(self.readings[0])  # float
        reveal_type(self.readings[-3:])  # list[float]
        reveal_type(self.days["monday"])  # int | None
        reveal_type(self.days.items())  # list[tuple[str, int | None]]
        self.last.update("high")  # error: arg-type
        self.days["monday"] = 0.5  # error: assignment
        del self.days["monday"]
        yield self.greatest.get() or 0.0


async def query(dashboard: client.QueryableStateClient) -> None:
    last = await dashboard.get_kv_state(None, "last", "sensor_1", descriptor=LAST)
    reveal_type(last)  # ValueState[float]
    reveal_type(last.value())  # float
    many = await dashboard.get_kv_states(None, "last", ["sensor_1"], descriptor=LAST)
    reveal_type(many)  # list[ValueState[float] | None]
    days = await dashboard.get_kv_state(None, "days", "sensor_1", descriptor=DAYS)
    reveal_type(days.items())  # ItemsView[str, int | None]
    entry = await dashboard.get_map_entry(None, "days", "sensor_1", "monday", descriptor=DAYS)
    reveal_type(entry.value())  # int | None
    newest = await dashboard.get_list_slice(None, "readings", "s", -10, descriptor=READINGS)
    reveal_type(newest.get())  # list[float]
    mean = await dashboard.get_kv_state(None, "mean", "sensor_1", descriptor=MEAN)
    reveal_type(mean.get())  # float
    untyped = await dashboard.get_kv_state(None, "last", "sensor_1", timeout_s=1)
    reveal_type(untyped)  # KvState


def query_blocking(dashboard: blocking.QueryableStateClient) -> None:
    greatest = dashboard.get_kv_state(None, "greatest", "sensor_1", descriptor=GREATEST)
    reveal_type(greatest.get())  # float
    readings = dashboard.get_kv_states(None, "readings", ["sensor_1"], descriptor=READINGS)
    reveal_type(readings)  # list[ListState[float] | None]
    first = dashboard.get_list_slice(None, "readings", "s", limit=10, descriptor=READINGS)
    reveal_type(first)  # ListSlice[float]
    reveal_type(dashboard.get_kv_state(None, "last", "sensor_1"))  # KvState
