"""Jobs that go on from what is stored, and find nothing new to process."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.counting_jobs import KEYS, readings
from tests.spark.functions import COUNTS, READINGS, CountPerKey
from tests.waiting import until

from queryable_state.client.blocking import QueryableStateClient
from queryable_state.wire.errors import CheckpointError, UnknownStateError

if TYPE_CHECKING:
    from pathlib import Path

    from tests.spark.conftest import MakeFeed, NewEnvironment
    from tests.spark.feed import Feed

    from queryable_state.streaming import JobClient, StreamExecutionEnvironment


def started(
    env: StreamExecutionEnvironment, source: Feed, *uids: str, **arguments: Any
) -> JobClient:
    """A job whose operators count readings by sensor, each in a state of its uid."""
    keyed = env.from_dataframe(source.dataframe()).key_by("sensor")
    for uid in uids or ("count",):
        keyed.process(CountPerKey(uid), COUNTS).uid(uid)
    job = env.execute_async("counting", **arguments)
    job.process_all_available()
    return job


def values(job: JobClient, state: str = "count") -> Counter[object]:
    """How many keys have each count."""
    host, _, port = job.proxy_address().rpartition(":")
    with QueryableStateClient(host, int(port)) as client:
        states = client.get_kv_states(job.job_id, state, KEYS)
    return Counter(None if found is None else found.value() for found in states)


def is_unknown(job: JobClient, state: str) -> bool:
    """Whether nobody answers a state; who has it cached does until the server's next lease."""
    try:
        values(job, state)
    except UnknownStateError:
        return True
    return False


@pytest.mark.parametrize(
    ("backend", "parallelism"), [("rocksdb", 2), pytest.param("heap", 3, marks=pytest.mark.slow)]
)
def test_all_keys_are_answered_without_input_and_counted_on_with_it(
    new_environment: NewEnvironment, feed: MakeFeed, tmp_path: Path, backend: str, parallelism: int
) -> None:
    """With servers and coordinator gone, then in the same session."""
    settings = {"checkpoint_directory": str(tmp_path / "state"), "backend": backend}
    source = feed(READINGS)
    for _ in range(2):
        source.add(*readings())
    first = started(new_environment(**settings), source)
    env = new_environment(**settings).set_parallelism(parallelism)
    again = started(env, source)
    assert again.job_id == first.job_id
    assert again.query.lastProgress is None or not again.query.lastProgress["numInputRows"]
    assert values(again) == {2: len(KEYS)}
    source.add(*readings(KEYS[:5]))
    again.process_all_available()
    assert values(again) == {2: len(KEYS) - 5, 3: 5}
    again.cancel()
    anew = started(env.set_parallelism(parallelism + 1), source)
    assert values(anew) == {2: len(KEYS) - 5, 3: 5}
    assert anew.trigger_checkpoint().state == "completed"
    source.add(*readings(KEYS[:5]))
    anew.process_all_available()
    assert values(anew) == {2: len(KEYS) - 5, 4: 5}


def test_a_job_that_found_nothing_to_process_waits_for_no_batch_of_its_own(
    new_environment: NewEnvironment,
    feed: MakeFeed,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Spark's progress of such a trigger names the batch that has yet to come."""
    env = new_environment(checkpoint_directory=str(tmp_path / "state"))
    source = feed(READINGS)
    source.add(*readings())
    first = started(env, source)
    assert "batch 0" in repr(first)
    first.cancel()
    again = started(env, source)
    until(lambda: again.query.lastProgress is not None)
    again.process_all_available()
    assert "batch" not in repr(again)
    assert "not all state servers serve" not in caplog.text


@pytest.mark.slow
def test_a_savepoint_is_answered_without_input_at_another_parallelism(
    new_environment: NewEnvironment, feed: MakeFeed, tmp_path: Path
) -> None:
    source = feed(READINGS)
    source.add(*readings())
    first = started(new_environment(checkpoint_directory=str(tmp_path / "one")), source)
    uri = first.stop_with_savepoint(False, str(tmp_path / "savepoints")).result()
    env = new_environment(checkpoint_directory=str(tmp_path / "two")).set_parallelism(3)
    second = started(env, source, savepoint=uri)
    assert second.job_id != first.job_id
    assert values(second) == {1: len(KEYS)}
    assert second.trigger_checkpoint().state == "completed"
    source.add(*readings(KEYS[:5]))
    second.process_all_available()
    assert values(second) == {1: len(KEYS) - 5, 2: 5}
    env = new_environment(checkpoint_directory=str(tmp_path / "two"))
    assert values(started(env, source, savepoint=uri)) == {1: len(KEYS) - 5, 2: 5}


@pytest.mark.parametrize("new_driver", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_an_operator_that_was_removed_is_neither_served_nor_waited_for(
    new_environment: NewEnvironment, feed: MakeFeed, tmp_path: Path, *, new_driver: bool
) -> None:
    settings = {"checkpoint_directory": str(tmp_path / "state")}
    source = feed(READINGS)
    source.add(*readings())
    env = new_environment(**settings)
    first = started(env, source, "count", "removed")
    assert values(first, "removed") == {1: len(KEYS)}
    first.cancel()
    if new_driver:
        env = new_environment(**settings)
    again = started(env, source, "count", allow_non_restored_state=True)
    assert values(again) == {1: len(KEYS)}
    until(lambda: is_unknown(again, "removed"))
    source.add(*readings())
    again.process_all_available()
    assert values(again) == {2: len(KEYS)}
    assert again.trigger_checkpoint().state == "completed"


def test_a_job_whose_stored_state_is_damaged_ends_with_the_cause_before_any_input(
    new_environment: NewEnvironment, feed: MakeFeed, tmp_path: Path
) -> None:
    settings = {"checkpoint_directory": str(tmp_path / "state")}
    source = feed(READINGS)
    for _ in range(2):
        source.add(*readings())
    started(new_environment(**settings), source).cancel()
    env = new_environment(**settings)
    shutil.rmtree(tmp_path / "state" / "counting" / "changelog")
    keyed = env.from_dataframe(source.dataframe()).key_by("sensor")
    keyed.process(CountPerKey("count"), COUNTS).uid("count")
    job = env.execute_async("counting")
    with pytest.raises(CheckpointError, match="lacks changelogs"):
        job.await_termination(60)
