"""Legal and illegal transitions of a subtask's ownership and of a run."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from queryable_state.server.coordinator.model.lifecycles import (
    OWNERSHIP,
    RUN,
    IllegalTransitionError,
    Lifecycle,
    OwnershipEvent,
    OwnershipState,
    RunEvent,
    RunPhase,
)
from queryable_state.server.coordinator.model.operators import Operator, Ownership
from queryable_state.server.coordinator.model.run import Run
from queryable_state.wire.errors import JobError, Reason, SupersededError

if TYPE_CHECKING:
    from collections.abc import Callable
    from enum import Enum
    from typing import Any

LIFECYCLES = Path(__file__).parents[2] / "docs" / "architecture" / "keys-and-owners.md"

OWNERSHIP_CALLS: dict[OwnershipEvent, Callable[[Ownership], None]] = {
    OwnershipEvent.ASSIGN: lambda subtask: subtask.assign("b", 7),
    OwnershipEvent.PLAN_RESTORE: lambda subtask: subtask.plan_restore(frozenset({"file"})),
    OwnershipEvent.END_RESTORE: Ownership.end_restore,
    OwnershipEvent.OPEN: lambda subtask: subtask.open(3, complete_since=2),
    OwnershipEvent.CLOSE: Ownership.close,
    OwnershipEvent.RELEASE: Ownership.release,
}

RUN_CALLS: dict[RunEvent, Callable[[Run], object]] = {
    RunEvent.BEGIN_BATCH: lambda run: run.begin_batch(3),
    RunEvent.REFUSE: lambda run: run.refuse(JobError("refused")),
    RunEvent.FENCE: lambda run: run.fence("another driver"),
}


@pytest.mark.parametrize(("state", "event"), list(product(OwnershipState, OwnershipEvent)))
def test_an_ownership_changes_as_its_table_says(
    state: OwnershipState, event: OwnershipEvent
) -> None:
    server_id = "" if state is OwnershipState.UNOWNED else "a"
    subtask = Ownership(index=0, state=state, server_id=server_id)
    before = Ownership(index=0, state=state, server_id=server_id)
    following = OWNERSHIP.transitions[state].get(event)
    if following is None:
        with pytest.raises(IllegalTransitionError, match=event.value):
            OWNERSHIP_CALLS[event](subtask)
        assert subtask == before
    else:
        OWNERSHIP_CALLS[event](subtask)
        assert subtask.state is following
        assert (subtask.server_id == "") == (following is OwnershipState.UNOWNED)


@pytest.mark.parametrize(("phase", "event"), list(product(RunPhase, RunEvent)))
def test_a_run_changes_as_its_table_says(phase: RunPhase, event: RunEvent) -> None:
    run, before = Run(run_id=b"r" * 16, phase=phase), Run(run_id=b"r" * 16, phase=phase)
    following = RUN.transitions[phase].get(event)
    if following is None:
        with pytest.raises(IllegalTransitionError, match=event.value):
            RUN_CALLS[event](run)
        assert run == before
    else:
        RUN_CALLS[event](run)
        assert run.phase is following


def test_an_illegal_transition_of_a_subtask_leaves_the_index_by_server_as_it_was() -> None:
    operator = Operator(query_id=b"q", uid="op", parallelism=1, max_parallelism=1, run_id=b"r")
    operator.assign(0, "a", 1)
    with pytest.raises(IllegalTransitionError):
        operator.close(0)
    assert operator.owned_by("a") == {0}
    assert not operator.holders


def test_a_refused_run_is_refused_once_and_says_why() -> None:
    run = Run(run_id=b"r" * 16)
    first = JobError("first")
    assert run.refuse(first)
    assert not run.refuse(JobError("second"))
    with pytest.raises(JobError, match="first"):
        run.check_not_refused()


def test_a_fenced_run_restores_nothing() -> None:
    run = Run(run_id=b"r" * 16)
    run.start_restore()
    assert run.fence("epoch 2 is taken")
    assert not run.fence("epoch 2 is taken")
    assert not run.restoring
    with pytest.raises(IllegalTransitionError):
        run.start_restore()
    with pytest.raises(SupersededError, match="epoch 2") as fenced:
        run.check_not_fenced()
    assert fenced.value.reason == Reason.FENCED


def _documented(heading: str) -> dict[str, dict[str, str]]:
    """The table below a heading of the page: state, event, following state."""
    section = LIFECYCLES.read_text().split(f"### {heading}\n")[1].split("\n#")[0]
    header, _, *rows = re.findall(r"^\|(.*)\|$", section, re.MULTILINE)
    events = [cell.strip() for cell in header.split("|")][1:-1]
    table = {}
    for row in rows:
        state, *cells, _ = [cell.strip().strip("*") for cell in row.split("|")]
        table[state] = {
            event: cell for event, cell in zip(events, cells, strict=True) if cell != "-"
        }
    return table


def _named(lifecycle: Lifecycle[Any, Any]) -> dict[str, dict[str, str]]:
    def text(each: Enum) -> str:
        return str(each.value)

    return {
        text(state): {text(event): text(following) for event, following in following_by.items()}
        for state, following_by in lifecycle.transitions.items()
    }


@pytest.mark.parametrize(
    ("lifecycle", "heading"), [(OWNERSHIP, "Ownership of a subtask"), (RUN, "Phase of a run")]
)
def test_the_documented_tables_are_those_of_the_code(
    lifecycle: Lifecycle[Any, Any], heading: str
) -> None:
    assert _documented(heading) == _named(lifecycle)
