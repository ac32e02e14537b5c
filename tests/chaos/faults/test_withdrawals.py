"""Batches that were committed twice: what readers may be shown before, between and after."""

from __future__ import annotations

from dataclasses import replace

from tests.chaos.checks.checker import Kind, check_reads
from tests.chaos.checks.reads import Mode, Read
from tests.chaos.faults.withdrawals import Loss, Withdrawal, first_commits, withdrawals
from tests.chaos.history.history import History
from tests.chaos.jobs.workload import TOTALS

SEED = 5
FIRST, LOST, AGAIN = 100.0, 110.0, 120.0
BATCH = 7
WITHDRAWN = Withdrawal(batch=BATCH, lost_at=LOST, again_at=AGAIN)
HISTORY = History(SEED)
KEY = next(
    key
    for key in HISTORY.keys_of(TOTALS)
    if HISTORY.value(TOTALS, key, BATCH - 2)
    and HISTORY.value(TOTALS, key, BATCH - 1) != HISTORY.value(TOTALS, key, BATCH - 2)
)


def read(started: float, version: int) -> Read:
    value = HISTORY.value(TOTALS, KEY, version)
    return Read(
        state=TOTALS, key=KEY, started=started, ended=started + 0.1, version=version, value=value
    )


def kinds(*reads: Read, withdrawn: tuple[Withdrawal, ...] = (WITHDRAWN,)) -> list[Kind]:
    committed = {BATCH - 2: 98.0, BATCH - 1: 99.0, BATCH: FIRST, BATCH + 1: 130.0}
    found = check_reads(History(SEED), reads, committed, BATCH + 1, withdrawn=withdrawn)
    return [violation.kind for violation in found]


def test_after_the_loss_the_batch_before_may_be_shown_until_the_batch_is_shown_again() -> None:
    shown, between, again = read(105.0, BATCH), read(115.0, BATCH - 1), read(121.0, BATCH)
    assert kinds(shown, between, again) == []
    assert kinds(shown, between, again, read(122.0, BATCH - 1)) == [Kind.WENT_BACK]
    assert kinds(shown, between, withdrawn=()) == [Kind.WENT_BACK]


def test_nothing_older_than_the_batch_before_may_be_shown() -> None:
    assert kinds(read(105.0, BATCH), read(115.0, BATCH - 2)) == [Kind.WENT_BACK]


def test_before_the_loss_nothing_is_different() -> None:
    assert kinds(read(105.0, BATCH), read(107.0, BATCH - 1)) == [Kind.WENT_BACK]


def test_between_loss_and_second_commit_the_batch_is_not_shown() -> None:
    assert kinds(read(115.0, BATCH)) == [Kind.UNCOMMITTED]
    assert kinds(read(105.0, BATCH)) == []


def test_the_batch_behind_may_have_been_another_one_before_the_loss() -> None:
    """Only uncommitted answers were of it."""
    wrong = replace(read(105.0, BATCH + 1), value=[1, 1, 1], mode=Mode.UNCOMMITTED)
    assert kinds(wrong) == []
    assert kinds(replace(wrong, started=111.0, ended=111.1)) == [Kind.WRONG_VALUE]
    assert kinds(wrong, withdrawn=()) == [Kind.WRONG_VALUE]


def test_a_batch_whose_commit_was_written_again_is_withdrawn() -> None:
    lost = Loss(batch=BATCH, at=LOST, committed_at=FIRST)
    assert withdrawals([lost], {BATCH: AGAIN, BATCH + 1: 130.0}) == [WITHDRAWN]
    assert first_commits([lost], {BATCH: AGAIN, BATCH + 1: 130.0}) == {
        BATCH: FIRST,
        BATCH + 1: 130.0,
    }


def test_a_loss_that_was_made_good_from_files_withdraws_nothing() -> None:
    lost = Loss(batch=BATCH, at=LOST, committed_at=FIRST)
    assert withdrawals([lost], {BATCH: FIRST}) == []
    # It was withdrawn, and the round ended before its second commit.
    assert withdrawals([lost], {}) == []
