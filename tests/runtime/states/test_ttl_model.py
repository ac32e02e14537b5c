"""States with a TTL against plain Python models, over batches with random timestamps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.states.ttl_interpreter import OPERATIONS, TtlInterpreter, in_list
from tests.runtime.states.ttl_model import Model
from tests.samples import sampled

from queryable_state.streaming import StateTtlConfig, Time, Types
from queryable_state.streaming.testing import KeyedOperatorHarness
from queryable_state.streaming.testing.in_memory_state import InMemoryStateBackend
from queryable_state.wire.values.lifetime import gone_ms
from queryable_state.wire.values.value_codec import is_stale

if TYPE_CHECKING:
    from queryable_state.server.storage.heap.store import HeapStateStore

Row = tuple[str, str, int]
"""Key, operation, argument."""

VISIBILITY = StateTtlConfig.StateVisibility
UPDATE = StateTtlConfig.UpdateType


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
        TtlInterpreter(ttl, mutable=mutable),
        "key STRING, op STRING, arg INT",
        key_by="key",
        output_type=Types.STRING(),
        parallelism=1,
        owner=backend,
    )


@settings(max_examples=sampled(120))
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
        in_list if mutable else int,
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
