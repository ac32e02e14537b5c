"""States with a TTL against plain Python models, over batches with random timestamps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.states.ttl_model import Model

from queryable_state.streaming import (
    AggregateFunction,
    AggregatingStateDescriptor,
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    Time,
    Types,
    ValueStateDescriptor,
)
from queryable_state.streaming.testing import KeyedOperatorHarness
from queryable_state.streaming.testing.in_memory_state import InMemoryStateBackend
from queryable_state.wire.values.lifetime import gone_ms
from queryable_state.wire.values.value_codec import is_stale

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from queryable_state.server.storage.heap.store import HeapStateStore
    from queryable_state.streaming import RuntimeContext

Row = tuple[str, str, int]
"""Key, operation, argument."""

VISIBILITY = StateTtlConfig.StateVisibility
UPDATE = StateTtlConfig.UpdateType


class Mean(AggregateFunction):
    def create_accumulator(self) -> tuple[int, int]:
        return (0, 0)

    def add(self, value: int, accumulator: tuple[int, int]) -> tuple[int, int]:
        return (accumulator[0] + value, accumulator[1] + 1)

    def get_result(self, accumulator: tuple[int, int]) -> str:
        return f"{accumulator[0]}/{accumulator[1]}"

    def merge(self, a: tuple[int, int], b: tuple[int, int]) -> tuple[int, int]:
        return (a[0] + b[0], a[1] + b[1])


class Interpreter(KeyedProcessFunction):
    """Applies the operation of each row to its state and emits what a read returns."""

    def __init__(self, ttl: StateTtlConfig, *, mutable: bool) -> None:
        self.ttl = ttl
        # Values of mutable types are cached as bytes.
        self.element: Any = Types.LIST(Types.LONG()) if mutable else Types.LONG()
        self.wrap: Callable[[int], Any] = _in_list if mutable else int

    def open(self, runtime_context: RuntimeContext) -> None:
        descriptors = (
            ValueStateDescriptor("value", self.element),
            ReducingStateDescriptor("reducing", lambda a, b: a + b, self.element),
            AggregatingStateDescriptor("aggregating", Mean(), Types.PICKLED_BYTE_ARRAY()),
            MapStateDescriptor("map", Types.LONG(), self.element),
            ListStateDescriptor("list", self.element),
        )
        for descriptor in descriptors:
            descriptor.enable_time_to_live(self.ttl)
        value, reducing, aggregating, entries, elements = descriptors
        self.value = runtime_context.get_state(value)
        self.reducing = runtime_context.get_reducing_state(reducing)
        self.aggregating = runtime_context.get_aggregating_state(aggregating)
        self.map = runtime_context.get_map_state(entries)
        self.list = runtime_context.get_list_state(elements)

    def process_element(self, row: Any, context: Any) -> Iterator[str]:
        name, _, operation = row.op.partition(".")
        state, argument = getattr(self, name), self.wrap(row.arg)
        match operation:
            case "value" | "keys" | "values" | "items" | "is_empty":
                result = getattr(state, operation)()
            case "get" if name == "map":
                result = state.get(row.arg)
            case "get":
                result = state.get()
            case "contains" | "remove":
                result = getattr(state, operation)(row.arg)
            case "put":
                result = state.put(row.arg, None if row.arg == 2 else argument)
            case "update" if name == "list":
                result = state.update([argument, argument])
            case "add" if name == "aggregating":
                result = state.add(row.arg)
            case "len":
                result = len(state)
            case "clear":
                result = state.clear()
            case _:
                result = getattr(state, operation)(argument)
        yield f"{row.key} {row.op} {result!r}"


def _in_list(value: int) -> list[int]:
    return [value]


OPERATIONS = {
    "value": ("value", "value", "update", "update", "clear"),
    "reducing": ("get", "get", "add", "add", "clear"),
    "aggregating": ("get", "get", "add", "add", "clear"),
    "map": (
        *("get", "contains", "put", "put", "put", "remove", "items", "keys", "values"),
        *("is_empty", "len", "clear"),
    ),
    "list": ("add", "add", "add", "get", "get", "get", "update", "len", "is_empty", "clear"),
}


@st.composite
def histories(draw: st.DrawFn) -> list[tuple[int, list[Row]]]:
    """Time that passes before a batch, and its rows: all of one state, most of one key."""
    name = draw(st.sampled_from(list(OPERATIONS)))
    operation = st.sampled_from([f"{name}.{each}" for each in OPERATIONS[name]])
    rows = st.lists(
        st.tuples(st.sampled_from("aaab"), operation, st.integers(1, 3)), min_size=1, max_size=4
    )
    return draw(st.lists(st.tuples(st.integers(0, 4), rows), min_size=2, max_size=12))


class Cleaned(InMemoryStateBackend):
    """Compacts and cleans up after every commit."""

    def __init__(self) -> None:
        super().__init__()
        self.cleaned = 0

    def commit(self, batch_id: int) -> None:
        super().commit(batch_id)
        for (uid, _), store in self._stores.items():
            store.compact(batch_id, 1_000)
            for (owner, _), state in self._registrations.items():
                if owner == uid:
                    judged_ms = gone_ms(state, self.timestamp_ms)
                    assert judged_ms is not None
                    self._clean(store, state.state_id, judged_ms)

    def _clean(self, store: HeapStateStore, state_id: int, judged_ms: int) -> None:
        def is_gone(value: bytes) -> bool:
            gone = is_stale(value, judged_ms)
            self.cleaned += gone
            return gone

        assert store.clean_up(state_id, b"", 10_000, is_gone) is None


def harness_of(ttl: StateTtlConfig, backend: InMemoryStateBackend, *, mutable: bool) -> Any:
    return KeyedOperatorHarness(
        Interpreter(ttl, mutable=mutable),
        "key STRING, op STRING, arg INT",
        key_by="key",
        output_type=Types.STRING(),
        parallelism=1,
        owner=backend,
    )


@settings(max_examples=120)
@given(
    mutable=st.booleans(),
    visibility=st.sampled_from(list(VISIBILITY)),
    update=st.sampled_from([UPDATE.OnCreateAndWrite, UPDATE.OnReadAndWrite]),
    batches=histories(),
    ttl_ms=st.integers(1, 6),
    in_background=st.booleans(),
)
def test_any_batches_give_what_the_model_gives(
    mutable: bool,
    visibility: StateTtlConfig.StateVisibility,
    update: StateTtlConfig.UpdateType,
    batches: list[tuple[int, list[Row]]],
    ttl_ms: int,
    in_background: bool,
) -> None:
    """Also with clean-up after every batch, of which neither outputs nor changes have a trace."""
    builder = StateTtlConfig.new_builder(Time.milliseconds(ttl_ms))
    builder.set_update_type(update).set_state_visibility(visibility)
    if not in_background:
        builder.disable_cleanup_in_background()
    ttl = builder.build()
    backend, cleaned = InMemoryStateBackend(), Cleaned()
    harness = harness_of(ttl, backend, mutable=mutable)
    harness_cleaned = harness_of(ttl, cleaned, mutable=mutable)
    model = Model(
        ttl_ms,
        update == UPDATE.OnReadAndWrite,
        visibility == VISIBILITY.ReturnExpiredIfNotCleanedUp,
        _in_list if mutable else int,
    )
    for passed_ms, ops in batches:
        backend.timestamp_ms += passed_ms
        cleaned.timestamp_ms = model.now_ms = backend.timestamp_ms
        expected = [model.apply(*row) for row in ops]
        outputs = harness.run(ops)
        # A replay reads the same and writes the same.
        assert harness.run(ops) == outputs == expected
        harness.commit()
        if in_background:
            assert harness_cleaned.process(ops) == expected
    for place, seals in cleaned.seals.items():
        found, other = seals[-1], backend.seals[place][-1]
        assert (found.record_count, found.checksum) == (other.record_count, other.checksum)
    for seals in backend.seals.values():
        assert len({(seal.record_count, seal.checksum) for seal in seals}) == 1
