"""Any split of an input into batches gives the same outputs and states, for every function kind."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.runtime.batches.commuting_functions import JOBS
from tests.samples import sampled

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.runtime.batches.commuting_functions import Batch, Job

    from queryable_state.streaming.testing import OperatorHarness

ELEMENTS = st.lists(
    st.tuples(st.sampled_from((1, 2)), st.sampled_from("abcdef"), st.integers(-5, 20)),
    max_size=25,
)


@pytest.mark.parametrize("kind", JOBS)
@settings(max_examples=sampled(25))
@given(elements=ELEMENTS, data=st.data())
def test_any_split_gives_the_same_outputs_and_states(
    kind: str, elements: Batch, data: st.DataObject
) -> None:
    """Batches of random sizes, in random chunks, replayed, and rescaled between two batches."""
    job = JOBS[kind]
    whole = job.harness(parallelism=1)
    expected = job.run(whole, elements)
    whole.commit()

    parallelism = st.integers(1, 4)
    chunk_rows = data.draw(st.sampled_from((1, 2, 3, 100)), label="rows of a chunk")
    harness = job.harness(
        parallelism=data.draw(parallelism, label="parallelism"), chunk_rows=chunk_rows
    )
    outputs: list[Any] = []
    for batch in split(elements, data):
        for _ in range(data.draw(st.integers(0, 1), label="attempts that do not count")):
            job.run(harness, batch)
        if harness.batch_id and data.draw(st.booleans(), label="rescales"):
            harness.rescale(data.draw(parallelism, label="new parallelism"))
        outputs += job.run(harness, batch)
        harness.commit()

    if job.emits:
        assert sorted(outputs) == sorted(expected)
    assert states(job, harness) == states(job, whole)


def split(elements: Batch, data: st.DataObject) -> list[Batch]:
    """At least one batch; batches may be empty."""
    cuts = data.draw(st.lists(st.integers(0, len(elements)), max_size=4).map(sorted), label="cuts")
    edges = [0, *cuts, len(elements)]
    return [elements[a:b] for a, b in itertools.pairwise(edges)]


def states(job: Job, harness: OperatorHarness) -> list[Any]:
    """All states; an operator state in the form that no rescale changes."""

    def subtasks(name: str) -> Sequence[Any]:
        return [harness.operator_state(name, each) for each in range(harness.spec.parallelism)]

    found: list[Any] = [harness.states(name) for name in job.keyed]
    for name in job.broadcast:
        first, *others = subtasks(name)
        assert all(other == first for other in others)
        found.append(first)
    return found + [sum(map(sum, subtasks(name))) for name in job.summed]
