"""User functions over dataclasses and named tuples, with values of types that Spark has not."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import time  # noqa: TC003 - annotations of a NamedTuple are read at run time
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from queryable_state.streaming import (
    Instant,
    KeyedProcessFunction,
    PickleSerializer,
    RuntimeContext,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


class Seen(NamedTuple):
    sensor: str
    at: time
    instant: Instant
    total: Annotated[int, Types.BIG_INT()]


@dataclass
class Told:
    sensor: str
    text: str


class Place(NamedTuple):
    since: Instant
    number: Annotated[int, Types.BIG_INT()]


def place_of(row: Any) -> Place:
    return Place(Instant.of_epoch_milli(row["amount"]), 10**30 + row["amount"])


class AddUp(KeyedProcessFunction):
    """Rows to named tuples; keeps the last one, and all of them by a serializer."""

    def open(self, runtime_context: RuntimeContext) -> None:
        last = ValueStateDescriptor("last", Seen)
        last.set_queryable("lastSeen")
        self.last = runtime_context.get_state(last)
        every = ValueStateDescriptor("every", PickleSerializer())
        every.set_queryable("every")
        self.every = runtime_context.get_state(every)

    def process_element(self, value: object, ctx: KeyedProcessFunction.Context) -> Iterator[Seen]:
        last = self.last.value()
        row = value.as_dict()  # type: ignore[attr-defined]  # an element is a row
        at, amount = row["at"], row["amount"]
        total = 10**30 + amount if last is None else last.total + amount
        seen = Seen(row["sensor"], at, Instant.of_epoch_milli(amount), total)
        self.last.update(seen)
        self.every.update({*(self.every.value() or ()), amount})
        yield seen


class Tell(KeyedProcessFunction):
    """Named tuples to dataclasses."""

    def process_element(self, value: Seen, ctx: KeyedProcessFunction.Context) -> Iterator[Told]:
        assert type(value) is Seen
        yield Told(value.sensor, f"{value.at} {value.instant.to_epoch_milli()} {value.total}")


class CountOf(KeyedProcessFunction):
    """Counts the elements of a key; puts out each count with the text of a column."""

    def __init__(self, column: str, queryable_name: str = "counts") -> None:
        self.column = column
        self.queryable_name = queryable_name

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptor = ValueStateDescriptor("count", Types.LONG())
        descriptor.set_queryable(self.queryable_name)
        self.count = runtime_context.get_state(descriptor)

    def process_element(
        self, value: Any, ctx: KeyedProcessFunction.Context
    ) -> Iterator[tuple[str, int]]:
        count = (self.count.value() or 0) + 1
        self.count.update(count)
        yield str(value[self.column]), count
