"""Findings that are over: when they began and ended, and what they said last."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.coordinator.status.findings.finding import WARNING, finding
from queryable_state.server.coordinator.status.findings.finding_history import FindingHistory

if TYPE_CHECKING:
    from queryable_state.v1 import status_pb2


def found(code: str, since_ms: int, message: str = "It is slow") -> status_pb2.Finding:
    return finding(code, WARNING, since_ms, message, "Wait.")


def ended(history: FindingHistory) -> list[tuple[str, int, int, str]]:
    return [(each.code, each.began_ms, each.ended_ms, each.message) for each in history.ended()]


def test_a_finding_that_is_gone_is_kept_with_its_last_words() -> None:
    history = FindingHistory()
    history.observe([found("JOB_BEHIND", 10, "3 wait")], 20)
    history.observe([found("JOB_BEHIND", 10, "9 wait")], 30)
    assert not history.ended()
    history.observe([], 40)
    history.observe([], 50)
    assert ended(history) == [("JOB_BEHIND", 10, 40, "9 wait.")]


def test_the_newest_end_is_first_and_fifty_are_kept() -> None:
    history = FindingHistory()
    for number in range(60):
        history.observe([found("BATCH_SLOW", 10 * number + 1)], 10 * number + 2)
        history.observe([], 10 * number + 3)
    assert len(history.ended()) == 50
    assert history.ended()[0].began_ms == 591


def test_a_finding_whose_beginning_moves_or_whose_cause_gets_known_goes_on() -> None:
    history = FindingHistory()
    history.observe([found("BATCH_SLOW", 10), found("JOB_RESTARTING", 15)], 20)
    history.observe([found("BATCH_SLOW", 30), found("POISON_RECORD", 15)], 40)
    assert not history.ended()
    history.observe([], 50)
    assert {each[:3] for each in ended(history)} == {
        ("BATCH_SLOW", 10, 50),
        ("POISON_RECORD", 15, 50),
    }


def test_one_of_two_findings_with_a_code_ends() -> None:
    history = FindingHistory()
    history.observe([found("SOURCE_SILENT", 10, "input 0"), found("SOURCE_SILENT", 12)], 20)
    history.observe([found("SOURCE_SILENT", 12)], 30)
    assert ended(history) == [("SOURCE_SILENT", 10, 30, "input 0.")]


def test_a_finding_that_is_back_with_its_beginning_was_never_over() -> None:
    history = FindingHistory()
    history.observe([found("HOT_KEY", 10)], 20)
    history.observe([], 30)
    history.observe([found("HOT_KEY", 10)], 40)
    assert not history.ended()


def test_a_finding_without_a_beginning_began_when_it_was_first_seen() -> None:
    history = FindingHistory()
    history.observe([found("RUN_REFUSED", 0)], 20)
    history.observe([found("RUN_REFUSED", 0)], 30)
    history.observe([], 40)
    assert ended(history)[0][:3] == ("RUN_REFUSED", 20, 40)
