"""Jobs that start from a savepoint: what they take over, under which ids, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.coordinator.drivers import QUERY, driver, subtask_of
from tests.coordinator.writers import writing_driver

from queryable_state.internal.v1 import checkpoint_pb2, coordinator_pb2
from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint.framing import write_message
from queryable_state.server.checkpoint.state_root import StateRoot
from queryable_state.v1 import registration_pb2
from queryable_state.wire.errors import JobError, RestoreMismatchError
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.coordinator.drivers import Driver

    from queryable_state.wire.schema.types import TypeInfo

VERSION = 6


def state(name: str, value: TypeInfo, *, state_id: int = 0) -> registration_pb2.StateRegistration:
    return registration_pb2.StateRegistration(
        job_id=b"old job's id 16b" if state_id else b"",
        operator_uid="op",
        state_name=name,
        queryable_name=name,
        state_id=state_id,
        kind=registration_pb2.VALUE,
        key_type=Types.STRING().to_proto(),
        max_parallelism=128 if state_id else 0,
        value_types=[registration_pb2.SchemaVersion(version=1, type=value.to_proto())],
    )


def savepoint(
    folder: Path,
    *states: registration_pb2.StateRegistration,
    left_behind: Sequence[str] = (),
    may_lose_states: bool = False,
) -> str:
    """URI of a savepoint of another job, from which the root in the folder starts."""
    metadata = checkpoint_pb2.CheckpointMetadata(
        format_version=1,
        job_id=b"old job's id 16b",
        version=VERSION,
        savepoint=True,
        operators=[
            checkpoint_pb2.OperatorSnapshot(
                uid="op",
                parallelism=1,
                max_parallelism=128,
                states=states,
                ranges=[checkpoint_pb2.RangeSnapshot(first_key_group=0, last_key_group=127)],
            ),
            *(checkpoint_pb2.OperatorSnapshot(uid=uid) for uid in left_behind),
        ],
    )
    place = folder / "savepoint-1"
    place.mkdir()
    (place / "_metadata").write_bytes(write_message(metadata))
    location = layout.beside(str(folder / "spark"))
    StateRoot(location, storage_of(location)).start_from(
        str(place),
        VERSION,
        job_id=QUERY,
        job_name="job",
        left_behind=left_behind,
        allow_non_restored_state=may_lose_states,
    )
    return str(place)


def register(
    job: Driver, *states: registration_pb2.StateRegistration
) -> list[registration_pb2.StateRegistration]:
    request = coordinator_pb2.RegisterStatesRequest(
        subtask=subtask_of(0), operator_name="op", states=states
    )
    return list(job.peer().ask("RegisterStates", request).states)


def test_states_are_taken_over_by_uid_and_name_under_ids_of_the_new_job(tmp_path: Path) -> None:
    uri = savepoint(tmp_path, state("count", Types.LONG(), state_id=77))
    with driver(tmp_path) as job:
        job.begin(VERSION + 1)
        plan = job.open(subtask_of(0), VERSION + 1)
        (source,) = plan.sources
        (registered,) = register(job, state("count", Types.LONG()))
        assert source.version == VERSION
        assert source.root == uri
        assert list(source.stored_state_ids) == [77]
        assert list(source.state_ids) == [registered.state_id]
        assert plan.complete_since_batch == 0
        assert not plan.from_first_batch
        assert registered.job_id == QUERY


def test_the_next_driver_finds_the_same_ids_and_the_savepoint_last(tmp_path: Path) -> None:
    uri = savepoint(tmp_path, state("count", Types.LONG(), state_id=77))
    with driver(tmp_path) as job:
        epoch = job.begin(VERSION + 1)
        job.open(subtask_of(0), VERSION + 1)
        (registered,) = register(job, state("count", Types.LONG()))
        job.seal(subtask_of(0), VERSION + 1, attempt=1, epoch=epoch)
        job.commit(VERSION + 1)
    with driver(tmp_path) as job:
        job.begin(VERSION + 2)
        plan = job.open(subtask_of(0), VERSION + 2)
        assert [s.root for s in plan.sources] == [uri]
        assert list(plan.sources[0].state_ids) == [registered.state_id]
        assert [f.batch_id for f in plan.changelogs] == [VERSION + 1]


def test_a_type_that_grew_gets_the_next_schema_version(tmp_path: Path) -> None:
    savepoint(tmp_path, state("count", Types.INT(), state_id=77))
    with driver(tmp_path) as job:
        job.begin(VERSION + 1)
        job.open(subtask_of(0), VERSION + 1)
        (registered,) = register(job, state("count", Types.LONG()))
        assert [version.version for version in registered.value_types] == [1, 2]


def test_another_type_is_refused_naming_both(tmp_path: Path) -> None:
    savepoint(tmp_path, state("count", Types.STRING(), state_id=77))
    with driver(tmp_path) as job:
        job.begin(VERSION + 1)
        job.open(subtask_of(0), VERSION + 1)
        with pytest.raises(JobError, match=r"(?i)string.*(bigint|long)"):
            register(job, state("count", Types.LONG()))


def test_a_state_the_job_does_not_declare_any_more_is_refused(tmp_path: Path) -> None:
    states = [state("count", Types.LONG(), state_id=77), state("old", Types.LONG(), state_id=78)]
    savepoint(tmp_path, *states)
    with driver(tmp_path) as job:
        job.begin(VERSION + 1)
        job.open(subtask_of(0), VERSION + 1)
        with pytest.raises(RestoreMismatchError, match="'old'"):
            register(job, state("count", Types.LONG()))


def test_it_may_be_left_behind_and_is_not_queryable(tmp_path: Path) -> None:
    states = [state("count", Types.LONG(), state_id=77), state("old", Types.LONG(), state_id=78)]
    savepoint(tmp_path, *states, may_lose_states=True)
    with driver(tmp_path) as job:
        job.begin(VERSION + 1)
        job.open(subtask_of(0), VERSION + 1)
        register(job, state("count", Types.LONG()))
        assert [s.queryable_name for s in job.coordinator.states()] == ["count"]


def test_other_key_groups_than_the_savepoint_has_are_refused(tmp_path: Path) -> None:
    savepoint(tmp_path, state("count", Types.LONG(), state_id=77))
    with driver(tmp_path) as job:
        job.begin(VERSION + 1)
        subtask = subtask_of(0, most=64)
        job.peer().assign(subtask)
        with pytest.raises(RestoreMismatchError, match=r"128 key groups .* set to 64"):
            job.peer().plan(subtask, VERSION + 1)


def test_a_query_that_does_not_go_on_behind_the_savepoint_is_refused(tmp_path: Path) -> None:
    savepoint(tmp_path, state("count", Types.LONG(), state_id=77))
    with driver(tmp_path) as job, pytest.raises(RestoreMismatchError, match="batch 6"):
        job.begin(0)


def test_an_added_operator_starts_empty_and_complete(tmp_path: Path) -> None:
    savepoint(tmp_path, state("count", Types.LONG(), state_id=77))
    with driver(tmp_path) as job:
        job.begin(VERSION + 1)
        plan = job.open(subtask_of(0, uid="added"), VERSION + 1)
        assert [len(source.ranges) for source in plan.sources] == [0]
        assert plan.complete_since_batch == 0


def test_a_checkpoint_does_without_the_operators_that_were_left_behind(tmp_path: Path) -> None:
    savepoint(tmp_path, state("last", Types.LONG(), state_id=77), left_behind=["gone"])
    with writing_driver(tmp_path) as job:
        job.run(VERSION + 1)
        metadata = job.coordinator.trigger_checkpoint(QUERY, 60)
        assert [operator.uid for operator in metadata.operators] == ["op"]
