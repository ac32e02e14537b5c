"""Timers of any program equal those of a brute-force model, whatever the cuts and restarts."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.timers.timer_model import OUTPUT, Call, ScriptedFunction, TimerModel, row
from tests.samples import sampled

from queryable_state.streaming.runtime.states.settings import RuntimeSettings
from queryable_state.streaming.testing import InMemoryStateBackend, KeyedOperatorHarness
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.keys.store_keys import split_record_key
from queryable_state.wire.keys.timer_keys import Clock, timer_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_START_MS = 1_000

_CALLS = st.builds(Call, st.booleans(), st.booleans(), st.integers(990, 1_030))
_STEP_CALLS = st.builds(Call, st.booleans(), st.booleans(), st.integers(-5, 15))
_ROWS = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.lists(_CALLS, max_size=3)), max_size=6)


@dataclass(frozen=True)
class Batch:
    """A batch, and what happens to the job before it."""

    rows: Sequence[tuple[str, Sequence[Call]]]
    clock_steps: tuple[int, int]
    """How far processing time and watermark move."""
    is_replayed: bool
    parallelism: int
    """0: no restart before the batch."""
    is_restored: bool
    """A restart restores a snapshot into a new harness, else it rescales the old one."""


_BATCHES = st.builds(
    Batch,
    _ROWS,
    st.tuples(st.integers(0, 12), st.integers(0, 12)),
    st.booleans(),
    st.sampled_from([0, 0, 1, 2, 3]),
    st.booleans(),
)


def _harness(
    steps: Sequence[Sequence[Call]], parallelism: int, page: int, now: int, watermark: int
) -> KeyedOperatorHarness:
    backend = InMemoryStateBackend(timestamp_ms=now, watermark_ms=watermark)
    backend.due_limit = page
    return KeyedOperatorHarness(
        ScriptedFunction(steps),
        "key STRING, calls STRING",
        key_by="key",
        output_type=OUTPUT,
        parallelism=parallelism,
        chunk_rows=2,
        settings=RuntimeSettings(fetch_keys=page, output_rows=3),
        owner=backend,
    )


def _by_key(outputs: Iterable[Any]) -> dict[str, list[tuple[Any, ...]]]:
    found: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for output in outputs:
        found[output[0]].append(tuple(output))
    return found


def _pending(harness: KeyedOperatorHarness) -> set[tuple[str, bool, int]]:
    """Key, is event time, and timestamp of the committed timers."""
    backend, spec = harness.backend, harness.spec
    assert isinstance(backend, InMemoryStateBackend)
    codec = KeyCodec(spec.key_type)
    found = []
    for subtask in range(spec.parallelism):
        for key, value in backend.records(spec.uid, subtask, "timers"):
            wire_key, _, element = split_record_key(key, codec)
            clock, timestamp_ms = timer_of(element)
            assert value == b""
            found.append((codec.decode_all(wire_key[2:]), clock == Clock.EVENT_TIME, timestamp_ms))
    assert len(set(found)) == len(found)
    return set(found)


@settings(max_examples=sampled(200))
@given(
    steps=st.lists(st.lists(_STEP_CALLS, max_size=3), max_size=4),
    batches=st.lists(_BATCHES, min_size=1, max_size=6),
    parallelism=st.integers(1, 3),
    page=st.integers(1, 4),
)
def test_any_program_fires_the_timers_of_the_model(
    steps: Sequence[Sequence[Call]], batches: Sequence[Batch], parallelism: int, page: int
) -> None:
    """Fired sequence of each key, outputs, state and pending timers, after every batch."""
    model, now, watermark = TimerModel(steps), _START_MS, 0
    harness = _harness(steps, parallelism, page, now, watermark)
    for number, batch in enumerate(batches):
        if batch.parallelism and number:
            if batch.is_restored:
                taken = harness.snapshot()
                harness = _harness(steps, batch.parallelism, page, now, watermark)
                harness.restore(taken)
            else:
                harness.rescale(batch.parallelism)
        now += batch.clock_steps[0]
        if batch.clock_steps[1]:
            watermark = (watermark or 990) + batch.clock_steps[1]
        harness.timestamp_ms, harness.watermark_ms = now, watermark
        rows = [row(key, calls) for key, calls in batch.rows]
        if batch.is_replayed:
            harness.run(rows)
        outputs = _by_key(harness.process(rows))
        assert outputs == model.run(batch.rows, now, watermark)
        assert _pending(harness) == model.pending()
        event = harness.num_event_time_timers()
        assert event == sum(is_event for _, is_event, _ in model.pending())
        assert harness.num_processing_time_timers() == len(model.pending()) - event
        assert harness.states("seen") == {
            key: state.seen for key, state in model.keys.items() if state.seen
        }
