"""The checker finds what it is there to find."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from tests.chaos.checks.checker import Kind, check_final, check_reads
from tests.chaos.checks.reads import Read, read_file, to_lines
from tests.chaos.history.history import MISSING, History
from tests.chaos.jobs.workload import GROUP_SUMS, RECENT, SHARES, STATES, TOTALS, rows_of

if TYPE_CHECKING:
    from pathlib import Path

SEED = 5
NEWEST = 30
COMMITTED_AT = {batch: 100.0 + batch for batch in range(NEWEST + 1)}


@pytest.fixture(scope="module")
def history() -> History:
    return History(SEED)


def read(history: History, version: int, *, key: str = "key_1", state: str = TOTALS) -> Read:
    """A right read, shortly after the batch was committed."""
    return Read(
        state=state,
        key=key,
        started=100.2 + version,
        ended=100.3 + version,
        version=version,
        value=history.value(state, key, version),
        server="server",
    )


def kinds(history: History, *reads: Read) -> list[Kind]:
    return [violation.kind for violation in check_reads(history, reads, COMMITTED_AT, NEWEST)]


def test_the_state_after_a_batch_is_what_its_rows_add_up_to(history: History) -> None:
    rows = [row for batch in range(11) for row in rows_of(SEED, batch) if row.key == "key_1"]
    assert history.value(TOTALS, "key_1", 10) == [
        len(rows),
        sum(row.amount for row in rows),
        rows[-1].number,
    ]
    group = [row for batch in range(11) for row in rows_of(SEED, batch) if row.group == "group_1"]
    assert history.value(GROUP_SUMS, "group_1", 10) == [
        len(group),
        sum(row.amount for row in group),
    ]
    recent = history.value(RECENT, "key_1", 10)
    assert recent == [row.number for row in rows][-len(recent) :]


def test_every_key_gets_a_value_of_every_state_in_time(history: History) -> None:
    assert all(
        history.value(state, key, NEWEST) is not MISSING
        for state in STATES
        for key in History.keys_of(state)
        if state != SHARES
    )


def test_right_reads_pass(history: History) -> None:
    reads = [
        read(history, version, key=key, state=state)
        for version in range(10, NEWEST + 1)
        for state in STATES
        for key in History.keys_of(state)
    ]
    assert not kinds(history, *reads)


@pytest.mark.parametrize("added", [1, -1, 100])
def test_a_value_of_no_batch_is_found(history: History, added: int) -> None:
    right = read(history, 20)
    count, total, last = right.value
    wrong = dataclasses.replace(right, value=[count + added, total, last])
    assert kinds(history, wrong) == [Kind.WRONG_VALUE]


def test_the_value_of_another_batch_than_the_answer_names_is_found(history: History) -> None:
    wrong = dataclasses.replace(read(history, 20), value=history.value(TOTALS, "key_1", 5))
    assert kinds(history, wrong) == [Kind.WRONG_VALUE]


def test_a_read_before_the_commit_is_found(history: History) -> None:
    early = dataclasses.replace(read(history, 20), started=119.0, ended=119.9)
    assert kinds(history, early) == [Kind.UNCOMMITTED]


def test_an_older_version_after_a_newer_one_is_found(history: History) -> None:
    late = dataclasses.replace(read(history, 19), started=125.0, ended=125.1)
    assert kinds(history, read(history, 20), late) == [Kind.WENT_BACK]


def test_reads_at_the_same_time_may_show_either_batch(history: History) -> None:
    newer = dataclasses.replace(read(history, 20), started=124.0, ended=125.05)
    older = dataclasses.replace(read(history, 19), started=125.0, ended=125.1)
    assert not kinds(history, newer, older)


def test_a_value_that_vanishes_is_found(history: History) -> None:
    gone = Read(state=TOTALS, key="key_1", started=125.0, ended=125.1)
    assert kinds(history, read(history, 20), gone) == [Kind.WENT_BACK]


def test_no_value_before_the_first_row_of_a_key_passes(history: History) -> None:
    first = min(b for b in range(NEWEST) if history.value(TOTALS, "key_1", b) is not MISSING)
    before = Read(state=TOTALS, key="key_1", started=99.0, ended=99.1)
    assert not kinds(history, before, read(history, first))


@pytest.mark.parametrize(
    "error", ["RetryLaterError", "PlacementError", "QueryTimeoutError", "NothingListensError"]
)
def test_refusals_that_say_what_to_do_pass(history: History, error: str) -> None:
    assert not kinds(history, dataclasses.replace(read(history, 3), error=error))


@pytest.mark.parametrize("error", ["InternalError", "StateLostError", "AioRpcError", "KeyError"])
def test_other_refusals_are_found(history: History, error: str) -> None:
    assert kinds(history, dataclasses.replace(read(history, 3), error=error)) == [Kind.REFUSED]


def final(history: History, **changes: Any) -> list[Kind]:
    last = dataclasses.replace(read(history, NEWEST), **changes)
    return [violation.kind for violation in check_final(history, [last], NEWEST)]


def test_the_right_end_passes(history: History) -> None:
    assert not final(history)


def test_a_lost_key_is_found_at_the_end(history: History) -> None:
    assert final(history, value=MISSING, version=None) == [Kind.LOST]
    assert final(history, error="StateLostError", value=MISSING, version=None) == [Kind.LOST]


def test_a_row_counted_twice_is_found_at_the_end(history: History) -> None:
    count, total, last = history.value(TOTALS, "key_1", NEWEST)
    assert final(history, value=[count + 1, total + 7, last]) == [Kind.WRONG_VALUE]


def test_an_end_behind_the_last_batch_is_found(history: History) -> None:
    quiet = next(
        version
        for version in range(NEWEST - 1, 0, -1)
        for key in ("key_1",)
        if history.value(TOTALS, key, version) == history.value(TOTALS, key, NEWEST)
    )
    assert final(history, version=quiet) == [Kind.WENT_BACK]


def test_reads_come_back_from_their_file_without_a_cut_last_line(
    history: History, tmp_path: Path
) -> None:
    reads = [read(history, version) for version in (3, 4)]
    path = tmp_path / "reads"
    path.write_text(to_lines(reads) + '["totals", "ke')
    assert list(read_file(path)) == reads
