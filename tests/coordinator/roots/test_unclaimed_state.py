"""State in a job's root that a later run does not claim: refused before any state is written."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest
from tests.coordinator.drivers import QUERY, driver, subtask_of
from tests.coordinator.writers import writing_driver

from queryable_state.internal.v1 import coordinator_pb2
from queryable_state.server.coordinator import JobConfig, OperatorLayout
from queryable_state.v1 import registration_pb2
from queryable_state.wire.errors import Reason, RestoreMismatchError
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from pathlib import Path

    from tests.coordinator.drivers import Driver

ALLOWED = JobConfig(allow_non_restored_state=True)


def start(job: Driver, operators: Collection[str] | None) -> None:
    """A run with these operators in its plan."""
    _, job.run_id = job.engine.start("job", query_id=QUERY, checkpoint_location=job.location)
    if operators is not None:
        layouts = [OperatorLayout(uid=uid, parallelism=1, max_parallelism=128) for uid in operators]
        job.coordinator.run_started(QUERY, "", layouts)


def register(job: Driver, uid: str, states: Mapping[str, str]) -> None:
    """An operator registers states, with their queryable names."""
    job.peer().ask(
        "RegisterStates",
        coordinator_pb2.RegisterStatesRequest(
            subtask=subtask_of(uid=uid, p=1),
            operator_name=f"the {uid}",
            states=[
                registration_pb2.StateRegistration(
                    state_name=name,
                    queryable_name=queryable,
                    kind=registration_pb2.VALUE,
                    key_type=Types.STRING().to_proto(),
                    value_types=[
                        registration_pb2.SchemaVersion(version=1, type=Types.LONG().to_proto())
                    ],
                )
                for name, queryable in states.items()
            ],
        ),
    )


def run(job: Driver, batch: int, operators: Mapping[str, Mapping[str, str]]) -> None:
    """A committed batch in which each operator has its states."""
    epoch = job.begin(batch)
    for uid, states in operators.items():
        subtask = subtask_of(uid=uid, p=1)
        job.open(subtask, batch)
        register(job, uid, states)
        job.seal(subtask, batch, attempt=batch + 1, epoch=epoch)
    job.commit(batch)


COUNTS = {"counts": {"count": "lastCount"}}


def files_of(folder: Path) -> list[Path]:
    """All files but the epochs and the address of the driver, which each driver writes."""
    return sorted(path for path in folder.rglob("*") if not {"epochs", "_endpoint"} & {*path.parts})


def test_a_renamed_uid_is_refused_at_the_first_begin_naming_old_and_new(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        run(job, 0, COUNTS)
        before = files_of(tmp_path)
    with driver(tmp_path) as job:
        start(job, ["renamed"])
        with pytest.raises(RestoreMismatchError) as refusal:
            job.begin(1)
        assert refusal.value.reason == Reason.RESTORE_MISMATCH
        for part in (
            "operator 'counts' (the counts) with state 'count' (queryable as 'lastCount')",
            "'renamed'",
            ".uid('counts')",
            "allow_non_restored_state=True",
            "execution.savepoint.ignore-unclaimed-state",
        ):
            assert part in str(refusal.value)
        after = files_of(tmp_path)
    assert after == before, "a refused run writes nothing but its epoch"
    with driver(tmp_path) as job:
        start(job, ["counts"])
        run(job, 1, COUNTS)


@pytest.mark.parametrize("known", ["by its configuration", "by its plan"])
def test_an_operator_that_was_only_removed_is_refused_too(tmp_path: Path, known: str) -> None:
    both = COUNTS | {"sums": {"sum": ""}}
    with driver(tmp_path) as job:
        run(job, 0, both)
    config = JobConfig(operators={"sums": ""}) if known == "by its configuration" else None
    with driver(tmp_path, config) as job:
        start(job, None if config else ["sums"])
        with pytest.raises(RestoreMismatchError, match=r"'counts'.*start empty: none"):
            job.begin(1)


def test_an_operator_that_is_only_new_or_runs_later_is_no_rename(tmp_path: Path) -> None:
    """All operators of the plan count, whichever of them registers first."""
    with driver(tmp_path) as job:
        run(job, 0, COUNTS)
    with driver(tmp_path) as job:
        start(job, ["before it", "counts"])
        run(job, 1, {"before it": {"n": "n"}})
        run(job, 2, {"before it": {"n": "n"}} | COUNTS)


def test_an_operator_without_a_stored_record_may_go(tmp_path: Path) -> None:
    """It registered, and no batch of it was committed: nothing is lost."""
    with driver(tmp_path) as job:
        job.begin(0)
        job.open(subtask_of(uid="idle", p=1), 0)
        register(job, "idle", {"n": ""})
        run(job, 0, COUNTS)
    with driver(tmp_path) as job:
        start(job, ["counts"])
        run(job, 1, COUNTS)


def test_what_was_left_behind_once_is_not_asked_for_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with writing_driver(tmp_path) as job:
        run(job, 0, COUNTS)
    caplog.set_level(logging.WARNING)
    with writing_driver(tmp_path, ALLOWED) as job:
        start(job, ["op"])
        job.run(1)
    assert "leaves behind" in caplog.text
    assert "'counts'" in caplog.text
    with writing_driver(tmp_path) as job:
        start(job, ["op"])
        job.run(2)
        metadata = job.coordinator.trigger_checkpoint(QUERY, 60)
        assert [operator.uid for operator in metadata.operators] == ["op"]


def test_a_renamed_state_within_an_operator_is_refused(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        run(job, 0, {"op": {"cnt": "total", "other": ""}})
    with driver(tmp_path) as job:
        job.begin(1)
        with pytest.raises(RestoreMismatchError) as refusal:
            register(job, "op", {"count": "total", "other": ""})
        for part in ("'op' (the op)", "'cnt' (queryable as 'total')", "'count'", "allow_non_rest"):
            assert part in str(refusal.value)
        assert job.coordinator.states() == []
    with driver(tmp_path, ALLOWED) as job:
        run(job, 1, {"op": {"count": "total", "other": ""}})
    with driver(tmp_path) as job:
        run(job, 2, {"op": {"count": "total", "other": ""}})
        assert [s.state_name for s in job.coordinator.states()] == ["count"]


def test_a_state_dropped_in_one_start_and_another_added_in_a_later_one_are_no_rename(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for batch, states in enumerate([{"a": "", "b": ""}, {"a": ""}, {"a": "", "c": ""}]):
        with driver(tmp_path) as job:
            run(job, batch, {"op": states})
    assert "does not declare any more" in caplog.text
    assert caplog.text.count("state 'b'") == 1
    with driver(tmp_path) as job:
        run(job, 3, {"op": {"a": "", "b": "", "c": ""}})
    assert "declares states again that the job had left behind" in caplog.text


def test_a_queryable_name_does_not_move_to_another_state(tmp_path: Path) -> None:
    with driver(tmp_path) as job:
        run(job, 0, {"one": {"a": "name", "b": ""}, "two": {"c": ""}})
    for moved in ({"a": "", "b": "name"}, {"a": "other", "b": "name"}):
        with driver(tmp_path) as job:
            job.begin(1)
            with pytest.raises(RestoreMismatchError, match=r"'name' was of state 'a'.*'b'"):
                register(job, "one", moved)
    with driver(tmp_path) as job:
        job.begin(1)
        with pytest.raises(RestoreMismatchError, match=r"state 'a' of operator 'one'.*'two'"):
            register(job, "two", {"c": "name"})
    with driver(tmp_path, ALLOWED) as job:
        run(job, 1, {"one": {"a": "", "b": "name"}, "two": {"c": ""}})
    with driver(tmp_path) as job:
        run(job, 2, {"one": {"a": "fresh name", "b": "name"}, "two": {"c": ""}})
