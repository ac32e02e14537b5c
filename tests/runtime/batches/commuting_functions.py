"""One job per kind of function, whose outputs and states any split of the input must not change.

A job with one input depends on the order of a key's elements, which no split changes. Where two
inputs meet the functions commute, because a batch passes its inputs one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tests.runtime.vectorised.running_totals import INPUT, OUTPUT, RunningTotals

from queryable_state.streaming import (
    CheckpointedFunction,
    KeyedBroadcastProcessFunction,
    KeyedCoProcessFunction,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from queryable_state.streaming.functions import ReducingStateDescriptor
from queryable_state.streaming.operator_state.broadcast_functions import BroadcastProcessFunction
from queryable_state.streaming.runtime.aggregates.aggregate import (
    Aggregate,
    AggregateKind,
    FieldAggregate,
)
from queryable_state.streaming.runtime.operators.operators import (
    LatestValueSink,
    Reduce,
    ReducingSink,
)
from queryable_state.streaming.stateless.output_tag import OutputTag
from queryable_state.streaming.testing import (
    BroadcastOperatorHarness,
    KeyedOperatorHarness,
    OperatorHarness,
    TwoInputOperatorHarness,
)

ROWS = "k STRING, v BIGINT"
LIMITS = MapStateDescriptor("limits", Types.LONG(), Types.LONG())
ODD = OutputTag("odd", Types.LONG())
Batch = Sequence[tuple[int, str, int]]
"""Elements in their order: the number of the input, 1 or 2, key and value."""


def _sum_state(name: str) -> ValueStateDescriptor[int]:
    return ValueStateDescriptor(name, Types.LONG())


class Counting(KeyedProcessFunction, CheckpointedFunction):
    """A sum and entries per key, a sum per subtask, a side output, and initial state."""

    def initialize_state(self, context: Any) -> None:
        store = context.get_operator_state_store()
        self.parts = store.get_list_state(ListStateDescriptor("parts", Types.LONG()))
        self.total = sum(self.parts.get())

    def snapshot_state(self, context: Any) -> None:
        self.parts.update([self.total])

    def open(self, runtime_context: Any) -> None:
        self.sum = runtime_context.get_state(_sum_state("sum"))
        self.seen = runtime_context.get_map_state(
            MapStateDescriptor("seen", Types.LONG(), Types.LONG())
        )
        self.all = runtime_context.get_list_state(ListStateDescriptor("all", Types.LONG()))

    def handle_initial_state(self, value: Any, ctx: Any) -> None:
        self.sum.update((self.sum.value() or 0) + value.v)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.total += value.v
        self.sum.update((self.sum.value() or 0) + value.v)
        self.seen[value.v] = (self.seen.get(value.v) or 0) + 1
        self.all.add(value.v)
        if value.v % 2:
            yield ODD, value.v
        yield value.k, self.sum.value()


class Both(KeyedCoProcessFunction):
    """Adds the first input, subtracts the second."""

    def open(self, runtime_context: Any) -> None:
        self.sum = runtime_context.get_state(_sum_state("sum"))

    def _add(self, key: str, amount: int) -> list[tuple[str, int]]:
        self.sum.update((self.sum.value() or 0) + amount)
        return [(key, amount)]

    def process_element1(self, value: Any, ctx: Any) -> Any:
        return self._add(ctx.get_current_key(), value.v)

    def process_element2(self, value: Any, ctx: Any) -> Any:
        return self._add(ctx.get_current_key(), -value.v)


class KeyedRules(KeyedBroadcastProcessFunction):
    """Keeps the greatest limit of each rule; sums the elements of each key."""

    def open(self, runtime_context: Any) -> None:
        self.sum = runtime_context.get_state(_sum_state("sum"))

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        self.sum.update((self.sum.value() or 0) + value.v)
        yield value.k, self.sum.value()

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        _raise_limit(value, ctx)


class PlainRules(BroadcastProcessFunction):
    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        yield value.k, value.v

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        _raise_limit(value, ctx)


def _raise_limit(value: Any, ctx: Any) -> None:
    limits = ctx.get_broadcast_state(LIMITS)
    limits.put(value.v % 3, max(value.v, limits.get(value.v % 3) or value.v))


@dataclass(frozen=True, kw_only=True)
class Job:
    """A harness's factory, how to run a batch on it, and what to compare at the end."""

    harness: Callable[..., OperatorHarness]
    run: Callable[[Any, Batch], list[Any]]
    emits: bool = True
    """False: outputs are one row per key and batch."""
    keyed: tuple[str, ...] = ()
    """Keyed states, compared by key."""
    broadcast: tuple[str, ...] = ()
    """Broadcast states, compared on every subtask."""
    summed: tuple[str, ...] = ()
    """List states, whose elements have the same sum at any parallelism."""


def _keyed(operator: Any, **fixed: Any) -> Callable[..., OperatorHarness]:
    def made(**options: Any) -> OperatorHarness:
        of = operator() if isinstance(operator, type) else operator
        return KeyedOperatorHarness(of, ROWS, key_by="k", **fixed, **options)

    return made


def _input(batch: Batch, number: int) -> list[tuple[str, int]]:
    return [(k, v) for of, k, v in batch if of == number]


def _one(harness: Any, batch: Batch) -> list[Any]:
    return harness.run([(k, v) for _, k, v in batch])  # type: ignore[no-any-return]


def _counting(harness: Any, batch: Batch) -> list[Any]:
    rows = [(k, v) for _, k, v in batch]
    outputs = harness.run(rows, initial_state=() if harness.batch_id else INITIAL)
    return outputs + [("odd", value) for value in harness.side_output(ODD)]  # type: ignore[no-any-return]


def _two(harness: Any, batch: Batch) -> list[Any]:
    return harness.run(_input(batch, 1), _input(batch, 2))  # type: ignore[no-any-return]


def _with_broadcast(harness: Any, batch: Batch) -> list[Any]:
    return harness.run(_input(batch, 1), broadcast=_input(batch, 2))  # type: ignore[no-any-return]


def _in_columns(harness: Any, batch: Batch) -> list[Any]:
    return harness.run([(k, 0, v, None) for _, k, v in batch])  # type: ignore[no-any-return]


def _added(one: Any, other: Any) -> Any:
    return (one.k, one.v + other.v)


def _rules(function: Any, **fixed: Any) -> Callable[..., OperatorHarness]:
    return lambda **options: BroadcastOperatorHarness(
        function(), [LIMITS], ROWS, ROWS, output_type=ROWS, **fixed, **options
    )


INITIAL = [("a", 1000), ("z", 2000)]

_AGGREGATE = Aggregate(
    tuple(FieldAggregate("v", kind, Types.LONG()) for kind in (AggregateKind.SUM,)), "sum"
)


JOBS: dict[str, Job] = {
    "process, operator state, initial state, side output": Job(
        harness=_keyed(Counting, output_type=ROWS, initial_state_type=ROWS, side_outputs=[ODD]),
        run=_counting,
        keyed=("sum", "seen", "all"),
        summed=("parts",),
    ),
    "co-process": Job(
        harness=lambda **options: TwoInputOperatorHarness(
            Both(), ROWS, ROWS, key_by=("k", "k"), output_type=ROWS, **options
        ),
        run=_two,
        keyed=("sum",),
    ),
    "keyed broadcast": Job(
        harness=_rules(KeyedRules, key_by="k"),
        run=_with_broadcast,
        keyed=("sum",),
        broadcast=("limits",),
    ),
    "broadcast": Job(harness=_rules(PlainRules), run=_with_broadcast, broadcast=("limits",)),
    "reduce": Job(
        harness=_keyed(Reduce(ReducingStateDescriptor("sum", _added, ROWS)), output_type=ROWS),
        run=_one,
        keyed=("sum",),
    ),
    "reducing sink": Job(
        harness=_keyed(ReducingSink(ReducingStateDescriptor("sum", _added, ROWS))),
        run=_one,
        keyed=("sum",),
    ),
    "latest value sink": Job(
        harness=_keyed(LatestValueSink.of(ValueStateDescriptor("last", ROWS), ("k", "v"))),
        run=_one,
        keyed=("last",),
    ),
    "aggregate": Job(
        harness=_keyed(_AGGREGATE, output_type=ROWS), run=_one, emits=False, keyed=("sum",)
    ),
    "batch function": Job(
        harness=lambda **options: KeyedOperatorHarness(
            RunningTotals(), INPUT, key_by=("k", "g"), output_type=OUTPUT, **options
        ),
        run=_in_columns,
        keyed=("totals", "last"),
    ),
}
