"""Jobs as clients name them, and how long they stay."""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    AmbiguousJobError,
    InvalidRequestError,
    JobError,
    Reason,
    UnknownJobError,
    UnknownStateError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.coordinator.peer import Peer, StartPeer

    from queryable_state.internal.v1 import backend_pb2
    from queryable_state.server.coordinator.settings import CoordinatorSettings
    from queryable_state.server.testing import InMemoryEngine, InProcessCoordinator

    SubtaskOf = Callable[..., backend_pb2.Subtask]


@pytest.fixture
def peer(start_peer: StartPeer) -> Peer:
    return start_peer()


@pytest.fixture
def settings(settings: CoordinatorSettings) -> CoordinatorSettings:
    return replace(settings, retained_finished_jobs=1)


def start_job(
    engine: InMemoryEngine, peer: Peer, subtask_of: SubtaskOf, name: str, *states: str
) -> bytes:
    query_id, _ = engine.start(name)
    peer.register_states(subtask_of(query_id), *states)
    return query_id


def test_a_job_is_found_by_id_with_and_without_dashes_and_by_name(
    engine: InMemoryEngine, peer: Peer, subtask_of: SubtaskOf
) -> None:
    query_id = start_job(engine, peer, subtask_of, "sensors", "last")
    texts = ["sensors", query_id.hex(), query_id.hex().upper(), str(uuid.UUID(bytes=query_id))]
    assert {peer.locate(text, "last").registration.job_id for text in texts} == {query_id}


def test_owners_that_are_known_are_told_again_only_where_they_have_changed(
    engine: InMemoryEngine, peer: Peer, subtask_of: SubtaskOf
) -> None:
    query_id = start_job(engine, peer, subtask_of, "sensors", "last", "first")
    known = peer.locate("sensors", "last")
    again = peer.relocate("sensors", "last", known)
    assert again.unchanged
    assert again.location.registration == known.registration
    assert again.location.placement_version == known.placement_version
    assert not again.location.owners
    other = peer.relocate("sensors", "first", known)
    assert other.location.registration.queryable_name == "first"
    assert other.location.owners
    assert peer.assign(subtask_of(query_id)) == peer.server_id
    moved = peer.relocate("sensors", "last", known)
    assert not moved.unchanged
    assert moved.location.owners[0].server_id == peer.server_id
    assert moved.location == peer.locate("sensors", "last")


def test_no_job_need_be_named_where_one_has_the_state(
    engine: InMemoryEngine, peer: Peer, subtask_of: SubtaskOf
) -> None:
    start_job(engine, peer, subtask_of, "one", "a")
    two = start_job(engine, peer, subtask_of, "two", "b")
    assert peer.locate("", "b").registration.job_id == two


def test_several_jobs_with_the_state_are_all_named(
    engine: InMemoryEngine, peer: Peer, subtask_of: SubtaskOf
) -> None:
    ids = [start_job(engine, peer, subtask_of, name, "a") for name in ("one", "two")]
    with pytest.raises(AmbiguousJobError) as refusal:
        peer.locate("", "a")
    assert all(query_id.hex() in str(refusal.value) for query_id in ids)
    assert len(refusal.value.candidates) == 2


def test_the_running_job_is_meant_where_the_others_have_ended(
    running: InProcessCoordinator, engine: InMemoryEngine, peer: Peer, subtask_of: SubtaskOf
) -> None:
    old, new = (start_job(engine, peer, subtask_of, "job", "a") for _ in range(2))
    engine.end(old)
    running.coordinator.refresh()
    assert peer.locate("", "a").registration.job_id == new
    assert peer.locate("job", "a").registration.job_id == new
    assert peer.locate(old.hex(), "a").registration.job_id == old


def test_an_unknown_job_or_state_is_told_with_those_there_are(
    engine: InMemoryEngine, peer: Peer, subtask_of: SubtaskOf
) -> None:
    start_job(engine, peer, subtask_of, "sensors", "last")
    with pytest.raises(UnknownJobError, match="'sensors'"):
        peer.locate("sensor", "last")
    with pytest.raises(UnknownStateError) as refusal:
        peer.locate("sensors", "lst")
    assert refusal.value.candidates == ("last",)
    with pytest.raises(UnknownStateError, match="known: last"):
        peer.locate("", "lst")
    with pytest.raises(InvalidRequestError):
        peer.locate("sensors", "")


def test_a_location_covers_all_key_groups_with_and_without_owners(
    engine: InMemoryEngine, peer: Peer, subtask_of: SubtaskOf
) -> None:
    query_id = start_job(engine, peer, subtask_of, "job", "a")
    (nobody,) = peer.locate("job", "a").owners
    assert (nobody.first_key_group, nobody.last_key_group, nobody.server_id) == (0, 127, "")
    peer.assign(subtask_of(query_id, 1, parallelism=3))
    owners = peer.locate("job", "a").owners
    assert [(o.first_key_group, o.last_key_group, o.server_id, o.address) for o in owners] == [
        (0, 42, "", ""),
        (43, 85, "a", "a:9067"),
        (86, 127, "", ""),
    ]


def test_jobs_and_states_are_listed(
    running: InProcessCoordinator, engine: InMemoryEngine, peer: Peer, subtask_of: SubtaskOf
) -> None:
    one = start_job(engine, peer, subtask_of, "one", "b", "a")
    start_job(engine, peer, subtask_of, "two", "c")
    engine.end(one, error="division by zero")
    running.coordinator.refresh()
    jobs = peer.ask("ListJobs", query_pb2.ListJobsRequest()).jobs
    assert [(job.name, list(job.states)) for job in jobs] == [("one", ["a", "b"]), ("two", ["c"])]
    assert [job.job_id_hex for job in jobs] == [job.job_id.hex() for job in jobs]
    assert [job.status for job in running.coordinator.jobs()] == ["FAILED", "RUNNING"]
    assert running.coordinator.jobs()[0].error == "division by zero"
    for job, names in (("", ["a", "b", "c"]), ("two", ["c"])):
        states = peer.ask("ListStates", query_pb2.ListStatesRequest(job=job)).states
        assert [state.queryable_name for state in states] == names


def test_a_failure_told_after_the_end_is_a_failure_for_good(
    running: InProcessCoordinator, engine: InMemoryEngine, peer: Peer, subtask_of: SubtaskOf
) -> None:
    """An engine forgets a query before its listener says why it ended."""
    job = start_job(engine, peer, subtask_of, "job", "state")
    for error, status in ((None, "FINISHED"), ("division by zero", "FAILED"), (None, "FAILED")):
        engine.end(job, error=error)
        running.coordinator.refresh()
        assert running.coordinator.jobs()[0].status == status
    assert running.coordinator.jobs()[0].error == "division by zero"


def test_the_oldest_ended_jobs_are_dropped_beyond_those_retained(
    running: InProcessCoordinator, engine: InMemoryEngine, peer: Peer, subtask_of: SubtaskOf
) -> None:
    first, second = (start_job(engine, peer, subtask_of, name, "a") for name in ("1", "2"))
    peer.assign(subtask_of(first))
    peer.open(subtask_of(first), 0)
    for query_id in (first, second):
        engine.end(query_id)
        running.coordinator.refresh()
    peer.wait_for(lambda: peer.dropped == [first])
    assert [job.query_id for job in running.coordinator.jobs()] == [second]
    assert not peer.heartbeat().owned


def test_a_job_is_dropped_on_request_once_it_has_ended(
    running: InProcessCoordinator, engine: InMemoryEngine, peer: Peer, subtask_of: SubtaskOf
) -> None:
    query_id = start_job(engine, peer, subtask_of, "job", "a")
    with pytest.raises(InvalidRequestError, match="is running"):
        running.coordinator.drop_query(query_id)
    engine.end(query_id)
    running.coordinator.refresh()
    running.coordinator.drop_query(query_id)
    assert not running.coordinator.jobs()
    with pytest.raises(UnknownJobError):
        running.coordinator.drop_query(query_id)


def test_a_second_claim_of_a_name_is_refused_at_its_first_batch(
    engine: InMemoryEngine, peer: Peer, subtask_of: SubtaskOf
) -> None:
    query_id = start_job(engine, peer, subtask_of, "job", "a")
    with pytest.raises(JobError) as refusal:
        peer.register_states(subtask_of(query_id, uid="other"), "a")
    assert refusal.value.reason == Reason.DUPLICATE_NAME
    assert "'op'" in str(refusal.value)
    assert "'other'" in str(refusal.value)
