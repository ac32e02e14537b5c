"""Savepoints resumed by programs with other operators, other types or another parallelism."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pytest
from tests.spark.counting_jobs import KEYS, Jobs, readings
from tests.spark.functions import COUNTS, CountPerKey, KeepsFields

from queryable_state.streaming import Types
from queryable_state.wire.errors import RestoreMismatchError

if TYPE_CHECKING:
    from queryable_state.streaming import JobClient


@pytest.mark.slow
def test_operators_are_added_and_removed_by_uid(
    jobs: Jobs, caplog: pytest.LogCaptureFixture
) -> None:
    def start(name: str, operators: str, **options: Any) -> JobClient:
        keyed = jobs.env.from_dataframe(jobs.source.dataframe()).key_by("sensor")
        if "counts" in operators:
            keyed.process(CountPerKey(), COUNTS).uid("counts")
        if "highest" in operators:
            keyed.aggregate_max("temperature", queryable_name="highest").uid("highest").name(
                "the highest"
            )
        if "lowest" in operators:
            keyed.aggregate_min("temperature", queryable_name="lowest").uid("lowest")
        return jobs.start(name, **options)

    jobs.source.add(*readings(temperature=5.0))
    first = start("first", "counts highest")
    first.process_all_available()
    uri = jobs.savepoint(first, stop=True)
    jobs.source.add(*readings(temperature=1.0))

    added = start("added", "counts highest lowest", savepoint=uri)
    added.process_all_available()
    assert jobs.values(added, "highest") == {5.0: len(KEYS)}
    assert jobs.values(added, "lowest") == {1.0: len(KEYS)}, "it has not seen the first batch"
    added.cancel()

    with pytest.raises(
        RestoreMismatchError, match=r"'highest' \(the highest\).*allow_non_restored"
    ):
        start("removed", "counts lowest", savepoint=uri)
    assert not (jobs.folder / "removed").exists()
    with caplog.at_level(logging.WARNING, "queryable_state.streaming"):
        removed = start("removed", "counts", savepoint=uri, allow_non_restored_state=True)
    assert "the operators highest in" in caplog.text
    removed.process_all_available()
    assert jobs.values(removed) == {2: len(KEYS)}
    later = start("later", "counts highest", savepoint=jobs.savepoint(removed, stop=True))
    jobs.source.add(*readings(temperature=2.0))
    later.process_all_available()
    assert jobs.values(later) == {3: len(KEYS)}
    assert jobs.values(later, "highest") == {2.0: len(KEYS)}, "what was left behind is gone"


def test_rows_gain_and_lose_fields_and_any_other_change_is_refused_naming_both_types(
    jobs: Jobs,
) -> None:
    def start(
        name: str, fields: dict[str, Any], dropped: tuple[str, ...] = (), **options: Any
    ) -> JobClient:
        row = Types.ROW_NAMED(list(fields), list(fields.values()))
        keyed = jobs.env.from_dataframe(jobs.source.dataframe()).key_by("sensor")
        keyed.process(KeepsFields(row, dropped), COUNTS).uid("keeps")
        return jobs.start(name, **options)

    jobs.source.add(*readings(temperature=1.0))
    first = start("first", {"kept": Types.INT(), "dropped": Types.LONG()})
    first.process_all_available()
    uri = jobs.savepoint(first, stop=True)
    jobs.source.add(*readings(KEYS[:1], temperature=2.0))
    changed = {"added": Types.LONG(), "kept": Types.LONG()}
    second = start("second", changed, ("dropped",), savepoint=uri)
    second.process_all_available()
    client = jobs.connect(second)
    assert client.get_kv_state(second.job_id, "kept", KEYS[0]).value() == (2, 1)
    untouched = client.get_kv_state(second.job_id, "kept", KEYS[1]).value()
    assert untouched._fields == ("added", "kept")
    assert untouched == (None, 1)
    with pytest.raises(
        RestoreMismatchError, match=r"'kept' of operator 'keeps'.*int and is string"
    ):
        start("third", {"kept": Types.STRING()}, savepoint=uri)


def test_the_parallelism_of_a_checkpoint_is_changed_without_a_savepoint(jobs: Jobs) -> None:
    for number, parallelism in enumerate((2, 3, 1)):
        jobs.source.add(*readings())
        jobs.env.set_parallelism(parallelism)
        job = jobs.counting("same")
        job.process_all_available()
        assert jobs.values(job) == {number + 1: len(KEYS)}
        job.cancel()
