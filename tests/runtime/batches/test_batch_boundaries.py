"""Outputs and state do not depend on where the input is divided into batches."""

from __future__ import annotations

import copy
import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.batches.every_kind import MAP_KEYS, VALUES, operations, outcome, portable, told
from tests.samples import sampled

from queryable_state.streaming.functions import KeyedProcessFunction, ReducingStateDescriptor
from queryable_state.streaming.runtime.operators.operators import Reduce
from queryable_state.streaming.testing import KeyedOperatorHarness

if TYPE_CHECKING:
    from queryable_state.streaming.functions import Context


@settings(max_examples=sampled(100))
@given(data=st.data())
def test_any_cut_of_the_input_gives_the_same_outputs_and_the_same_state(
    data: st.DataObject,
) -> None:
    spec = data.draw(st.sampled_from(sorted(VALUES)), label="type")
    key_spec = data.draw(st.sampled_from(sorted(MAP_KEYS)), label="map key")
    programs = st.lists(st.lists(operations(spec, key_spec), max_size=5), min_size=2, max_size=6)
    program = data.draw(programs, label="elements")
    cuts = sorted(data.draw(st.sets(st.integers(1, len(program) - 1), min_size=1), label="cuts"))
    edges = [0, *cuts, len(program)]
    batches = [program[a:b] for a, b in itertools.pairwise(edges)]
    assert outcome(spec, key_spec, batches) == outcome(spec, key_spec, [program])


@pytest.mark.parametrize("spec", VALUES)
def test_a_value_reads_alike_in_the_batch_that_wrote_it_and_in_the_next(spec: str) -> None:
    """Every value of every type, in every kind of state."""
    for value in VALUES[spec]:
        names = ["value.update", "list.add", "last.add", "all.add", "pickles.add"]
        # Each call has a value of its own: the function spoils what it has written.
        own = [copy.deepcopy(portable(value)) for _ in names]
        writes: list[Any] = [(name, (one,)) for name, one in zip(names, own, strict=True)]
        writes.append(("map.put", (1, copy.deepcopy(portable(value)))))
        reads: list[Any] = [
            (f"{name}.{'value' if name == 'value' else 'get'}", ())
            for name in ("value", "list", "last", "all", "pickles")
        ]
        reads += [("map.items", ()), ("map.get", (1,))]
        cut = outcome(spec, "bigint", [[writes], [reads]])
        assert "Error" not in cut[0][0]
        assert cut == outcome(spec, "bigint", [[writes, reads]])


def test_a_value_is_refused_by_the_call_that_writes_it() -> None:
    wrong = ("x",)
    calls: list[Any] = [("value.update", wrong), ("map.put", (1, "x")), ("list.add", wrong)]
    calls += [("list.add_all", ([1, "x"],)), ("list.update", ([1, "x"],)), ("last.add", wrong)]
    good = [("list.add", (7,)), ("value.update", (7,)), ("map.put", (1, 7)), ("last.add", (7,))]
    outputs, stored = outcome("bigint", "bigint", [[calls, good]])
    refused, (value, elements, entries, last, *_) = outputs[0], stored
    assert refused.count("SerializationError") == len(calls)
    # What was refused left nothing behind, and what came after it counts.
    assert (value, last) == (told(7), told(7))
    assert (elements, entries) == (told([7]), told({1: 7}))


class KeyTeller(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: Context) -> list[str]:
        return [told(ctx.get_current_key())]


def test_a_key_looks_the_same_whichever_row_of_it_comes_first() -> None:
    harness = KeyedOperatorHarness(
        KeyTeller(), "double", key_by="value", output_type="string", parallelism=1
    )
    together = harness.process([-0.0, 0.0])
    assert together == [told(0.0)] * 2
    assert harness.process([0.0]) + harness.process([-0.0]) == together


def test_reduce_puts_out_the_value_as_it_is_stored() -> None:
    descriptor = ReducingStateDescriptor("reduce", lambda a, b: (a.k, a.v + b.v), "k int, v float")

    def outputs(batches: list[list[Any]]) -> str:
        harness = KeyedOperatorHarness(
            Reduce(descriptor),
            "k int, v float",
            key_by="k",
            output_type="k int, v float",
            parallelism=1,
        )
        return told([row for batch in batches for row in harness.process(batch)])

    rows = [(1, 0.1), (1, 0.2), (1, 0.3)]
    assert outputs([rows]) == outputs([rows[:1], rows[1:]]) == outputs([[row] for row in rows])


def test_the_in_memory_state_gives_what_the_function_read() -> None:
    """The test double decodes the stored bytes, as a server's client does."""
    _, stored = outcome("float", "bigint", [[[("value.update", (0.1,)), ("map.put", (1, None))]]])
    assert stored[0] == told(float(np.float32(0.1)))
    assert stored[2] == told({1: None})
