"""How long a recovery took is read off commits and answers."""

from __future__ import annotations

from tests.chaos.checks.reads import Read
from tests.chaos.result import StrikeResult, note_recoveries


def strike() -> StrikeResult:
    return StrikeResult(fault="kill-server", what="it", began=100.0, ended=100.0, batch=7)


def read(key: str, started: float, version: int, error: str = "") -> Read:
    return Read(
        state="totals", key=key, started=started, ended=started + 0.1, version=version, error=error
    )


def test_the_batch_in_flight_at_the_fault_is_no_recovery() -> None:
    struck = strike()
    note_recoveries([struck], [], {7: 99.0, 8: 100.2, 9: 104.0, 10: 104.5})
    assert struck.commit_s == 4.0


def test_keys_are_back_when_the_last_one_is_answered_at_a_newer_batch() -> None:
    struck = strike()
    reads = [
        read("a", 99.0, 7),
        read("a", 100.5, 7),
        read("a", 101.0, 8),
        read("b", 102.0, 8, error="RetryLaterError"),
        read("b", 103.0, 9),
        read("b", 105.0, 9),
    ]
    note_recoveries([struck], reads, {})
    assert struck.answer_s is not None
    assert round(struck.answer_s, 3) == 3.1


def test_without_an_answer_of_every_key_there_is_no_time() -> None:
    struck = strike()
    note_recoveries([struck], [read("a", 101.0, 8), read("b", 99.0, 7)], {8: 100.1})
    assert struck.answer_s is None
    assert struck.commit_s is None
