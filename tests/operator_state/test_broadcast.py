"""Functions of a stream that is connected with a broadcast stream."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queryable_state.streaming import (
    BroadcastProcessFunction,
    CheckpointedFunction,
    KeyedBroadcastProcessFunction,
    KeyedStateFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Types,
    ValueStateDescriptor,
)
from queryable_state.streaming.functions import UserFunctionError
from queryable_state.streaming.runtime.operators.declared_states import declared_states
from queryable_state.streaming.runtime.operators.operators import (
    BroadcastProcess,
    KeyedBroadcastProcess,
)
from queryable_state.streaming.runtime.states.settings import RuntimeSettings
from queryable_state.streaming.testing import BroadcastOperatorHarness
from queryable_state.wire.errors import InvalidRequestError, JobError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.streaming import (
        FunctionInitializationContext,
        FunctionSnapshotContext,
        RuntimeContext,
    )

LIMITS = MapStateDescriptor("limits", Types.STRING(), Types.DOUBLE())
LAST = ValueStateDescriptor("last", Types.DOUBLE())
SEEN = ListStateDescriptor("seen", Types.DOUBLE())


class Alerts(KeyedBroadcastProcessFunction):
    """Emits readings above a limit; a limit `reset` clears the last reading of every key."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.last = runtime_context.get_state(LAST)
        self.seen = runtime_context.get_list_state(SEEN)

    def process_element(self, value: Any, ctx: Any) -> Iterator[Any]:
        for name, limit in ctx.get_broadcast_state(LIMITS).items():
            if value.degrees > limit:
                yield (ctx.get_current_key(), name, self.last.value())
        self.last.update(value.degrees)
        self.seen.add(value.degrees)

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        if value.name == "reset":
            ctx.apply_to_keyed_state(LAST, lambda key, state: state.clear())
        elif value.limit is None:
            ctx.get_broadcast_state(LIMITS).remove(value.name)
        else:
            ctx.get_broadcast_state(LIMITS).put(value.name, value.limit)


def harness_of(function: Any, **options: Any) -> BroadcastOperatorHarness:
    options = {"output_type": "sensor STRING, name STRING, last DOUBLE"} | options
    return BroadcastOperatorHarness(
        function,
        [LIMITS],
        "sensor STRING, degrees DOUBLE",
        "name STRING, limit DOUBLE",
        key_by="sensor",
        **options,
    )


def test_broadcast_elements_come_first_and_reach_every_subtask() -> None:
    harness = harness_of(Alerts(), parallelism=3)
    rows = [(f"sensor_{number}", 30.0) for number in range(20)]
    outputs = harness.process(rows, broadcast=[("hot", 25.0)])
    assert sorted(outputs) == sorted((sensor, "hot", None) for sensor, _ in rows)
    assert [harness.operator_state("limits", subtask) for subtask in range(3)] == [
        {"hot": 25.0}
    ] * 3
    assert sorted(harness.process(rows)) == sorted((sensor, "hot", 30.0) for sensor, _ in rows)
    assert harness.process(rows, broadcast=[("hot", None)]) == []


@pytest.mark.parametrize("page", [1, 3, 16_384])
def test_keyed_state_of_all_keys_is_reached_from_a_broadcast_element(page: int) -> None:
    settings = RuntimeSettings(fetch_keys=page)
    harness = harness_of(Alerts(), parallelism=2, settings=settings)
    harness.process([(f"sensor_{number}", float(number)) for number in range(10)])
    harness.process([("sensor_1", 50.0)], broadcast=[("reset", 0.0)])
    state = {number: harness.state("last", f"sensor_{number}") for number in range(10)}
    assert state == {number: 50.0 if number == 1 else None for number in range(10)}


class Visits(KeyedBroadcastProcessFunction):
    """Visits the keys of a state, writes another one, and counts what it visited."""

    def open(self, runtime_context: RuntimeContext) -> None:
        self.states = {
            state.name: state
            for state in (LAST, SEEN, MapStateDescriptor("pairs", Types.STRING(), Types.LONG()))
        }
        self.last = runtime_context.get_state(LAST)
        self.seen = runtime_context.get_list_state(SEEN)
        self.pairs = runtime_context.get_map_state(self.states["pairs"])  # type: ignore[arg-type]

    def process_element(self, value: Any, ctx: Any) -> None:
        if value.degrees < 0:
            self.last.clear()
            self.seen.clear()
            return
        self.last.update(value.degrees)
        self.seen.add(value.degrees)
        self.pairs.put("a", 1)
        self.pairs.put("b", 2)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        visited: list[Any] = []

        class Visit(KeyedStateFunction[Any]):
            def process(_, key: Any, state: Any) -> None:  # noqa: N805 - `self` is the function
                visited.append(key)
                if value.name == "last":
                    self.seen.clear()
                    self.last.update(-(self.last.value() or 0.0))

        ctx.apply_to_keyed_state(self.states[value.name], Visit())
        return [(key, value.name, None) for key in visited]


def test_each_key_with_the_state_is_visited_once() -> None:
    harness = harness_of(Visits(), parallelism=2, settings=RuntimeSettings(fetch_keys=2))
    harness.process([("a", 1.0), ("b", 2.0), ("c", 3.0), ("d", -1.0)])
    harness.process([("c", -1.0), ("e", 5.0)])

    def visited(*names: str) -> Counter[Any]:
        outputs = harness.process([], broadcast=[(name, 0.0) for name in names])
        return Counter((name, key) for key, name, _ in outputs)

    assert visited("pairs") == Counter(("pairs", key) for key in "abce")
    # The first one clears the lists, so the second one finds none in the same batch.
    assert visited("last", "seen") == Counter(("last", key) for key in "abe")
    assert harness.state("last", "a") == -1.0
    assert visited("seen") == Counter()


class Written(Visits):
    """Writes a state in the visit of another one, for keys that did not have it."""

    def process_element(self, value: Any, ctx: Any) -> None:
        self.last.update(value.degrees)

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        visited: list[Any] = []
        ctx.apply_to_keyed_state(LAST, lambda key, state: self.seen.add(state.value()))
        ctx.apply_to_keyed_state(SEEN, lambda key, state: visited.append((key, "", state.get()[0])))
        return visited


def test_keys_written_in_the_batch_are_visited_too() -> None:
    harness = harness_of(Written(), parallelism=1)
    harness.process([("a", 1.0), ("b", 2.0)])
    assert sorted(harness.process([], broadcast=[("x", 0.0)])) == [("a", "", 1.0), ("b", "", 2.0)]


class Unkeyed(BroadcastProcessFunction, CheckpointedFunction):
    """Counts the elements of each subtask, and adds a broadcast offset."""

    def initialize_state(self, context: FunctionInitializationContext) -> None:
        descriptor = ListStateDescriptor("counts", Types.LONG())
        self.counts = context.get_operator_state_store().get_list_state(descriptor)
        self.count = sum(self.counts.get())

    def process_element(self, value: Any, ctx: Any) -> Any:
        self.count += 1
        return [(value.sensor, "", ctx.get_broadcast_state(LIMITS).get("offset"))]

    def process_broadcast_element(self, value: Any, ctx: Any) -> None:
        ctx.get_broadcast_state(LIMITS)[value.name] = value.limit

    def snapshot_state(self, context: FunctionSnapshotContext) -> None:
        self.counts.update([self.count])


def test_a_function_without_keys_has_operator_and_broadcast_state() -> None:
    harness = harness_of(Unkeyed(), parallelism=2)
    assert harness.process([("a", 1.0)], broadcast=[("offset", 7.5)]) == [("a", "", 7.5)]
    harness.process([("a", 1.0), ("b", 1.0)])
    counts = [harness.operator_state("counts", subtask)[0] for subtask in (0, 1)]
    assert sum(counts) == 3


def test_the_driver_learns_keyed_and_broadcast_states() -> None:
    keyed = declared_states(KeyedBroadcastProcess(Alerts(), (LIMITS,)))
    assert [state.name for state in keyed] == ["last", "seen", "limits"]
    plain = declared_states(BroadcastProcess(Unkeyed(), (LIMITS,)))
    assert [state.name for state in plain] == ["limits", "counts"]


class Misusing(Alerts):
    def __init__(self, what: str) -> None:
        self.what = what

    def process_element(self, value: Any, ctx: Any) -> Any:
        state = ctx.get_broadcast_state(LIMITS)
        match self.what:
            case "put":
                state.put("a", 1.0)
            case "item":
                state["a"] = 1.0
            case "clear":
                state.clear()
            case "unknown":
                ctx.get_broadcast_state(MapStateDescriptor("typo", Types.INT(), Types.INT()))

    def process_broadcast_element(self, value: Any, ctx: Any) -> Any:
        match self.what:
            case "keyed":
                self.last.update(1.0)
            case "other":
                ctx.apply_to_keyed_state(ValueStateDescriptor("other", Types.INT()), print)
            case "text":
                return "text"
        return None


@pytest.mark.parametrize(
    ("what", "error", "text"),
    [
        ("put", InvalidRequestError, r"put\(\) in process_element would change it on one subtask"),
        ("item", InvalidRequestError, "an assignment in process_element"),
        ("clear", InvalidRequestError, r"clear\(\) in process_element"),
        ("unknown", InvalidRequestError, r"broadcast\(...\) are 'limits'"),
        ("keyed", JobError, "without a current key"),
        ("other", InvalidRequestError, "requested these keyed states in open: 'last', 'seen'"),
        ("text", UserFunctionError, "process_broadcast_element failed for .* returned a str"),
    ],
)
def test_misuse_is_refused(what: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        harness_of(Misusing(what)).process([("a", 1.0)], broadcast=[("b", 1.0)])


@settings(max_examples=30)
@given(
    st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from([1.0, 2.0, 3.0])), max_size=8),
    st.lists(st.tuples(st.sampled_from(["x", "y"]), st.sampled_from([None, 1.5])), max_size=5),
    st.lists(st.integers(0, 13), max_size=4),
    st.integers(1, 3),
)
def test_subtasks_agree_whatever_the_batches(
    rows: list[Any], rules: list[Any], cuts: list[int], parallelism: int
) -> None:
    """The broadcast state is that of all broadcast elements in order, equal on all subtasks."""
    harness = harness_of(Alerts(), parallelism=parallelism)
    bounds = [0, *sorted(cuts), max(len(rows), len(rules))]
    for start, end in pairwise(bounds):
        harness.process(rows[start:end], broadcast=rules[start:end])
    expected: dict[str, float] = {}
    for name, limit in rules:
        expected.pop(name, None)
        if limit is not None:
            expected[name] = limit
    for subtask in range(parallelism):
        assert harness.operator_state("limits", subtask) == expected
