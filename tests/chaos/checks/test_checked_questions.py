"""The checker finds wrong answers to every kind of question, and passes right ones."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from tests.chaos.checks.checker import Kind, check_reads
from tests.chaos.checks.expected import expected, key_group, scanned_order
from tests.chaos.checks.reads import Mode, Read, Span, What
from tests.chaos.history.history import MISSING, History
from tests.chaos.jobs.workload import GROUPS, KEYS, RECENT, SHARES, TIMERS, TOTALS, WINDOW_SUMS

SEED = 5
NEWEST = 30
COMMITTED_AT = {batch: 100.0 + batch for batch in range(NEWEST + 1)}
ALWAYS = [(0.0, 1000.0)]
KEY = "key_1"
_STATES = {
    What.SIZE: RECENT,
    What.TIMERS: TIMERS,
    **dict.fromkeys((What.WINDOW, What.WINDOWS), WINDOW_SUMS),
}
_KEYS = {WINDOW_SUMS: GROUPS[1]}
WINDOW = 1_767_225_608_000
"""Live after batch 20."""


@pytest.fixture(scope="module")
def history() -> History:
    return History(SEED)


def right(history: History, version: int, what: What = What.VALUE, **fields: Any) -> Read:
    """A right answer, shortly after the batch was committed."""
    state = SHARES if fields.get("element") is not None else TOTALS
    state = _STATES.get(what, state)
    asked: dict[str, Any] = {
        "state": state,
        "key": ""
        if what in (What.SCAN, What.MEASURE)
        else GROUPS[1]
        if state == WINDOW_SUMS
        else KEY,
        "what": what,
        "started": 100.2 + version,
        "ended": 100.3 + version,
        "version": version,
        "server": "server",
        "commit_s": COMMITTED_AT[version],
    }
    blank = Read(**(asked | fields))
    return dataclasses.replace(blank, value=expected(history, blank, version))


def page(history: History, version: int, **fields: Any) -> Read:
    """A right page of a scan."""
    return right(history, version, What.SCAN, **({"span": Span()} | fields))


def kinds(history: History, *reads: Read, calm: Any = ()) -> list[Kind]:
    found = check_reads(history, reads, COMMITTED_AT, NEWEST, calm=calm)
    return [violation.kind for violation in found]


def with_items(read: Read, items: list[Any]) -> Read:
    return dataclasses.replace(read, value=[items, *read.value[1:]])


def test_right_answers_of_every_kind_pass(history: History) -> None:
    asked: list[tuple[What, dict[str, Any]]] = [
        *((what, {}) for what in What if what not in (What.SCAN, What.ENTRY, What.WINDOW)),
        (What.WINDOW, {"element": WINDOW}),
        *((what, {"element": 3}) for what in (What.ENTRY, What.EXISTS)),
        *((What.SCAN, {"span": span}) for span in (Span(), Span(prefix="key_2", limit=3))),
    ]
    reads = [
        right(history, version, what, **fields)
        for version in range(10, NEWEST + 1)
        for what, fields in asked
    ]
    assert not kinds(history, *reads, calm=ALWAYS)


@pytest.mark.parametrize(
    ("what", "wrong"),
    [
        (What.VALUE, [1, 1, 1]),
        (What.EXPLAINED, [[1, 1, 1], 7]),
        (What.ENTRY, 77),
        (What.EXISTS, False),
        (What.SIZE, 99),
        (What.MEASURE, [0, 63, True]),
        (What.WINDOW, ["group_1", 1, 1, 1]),
        (What.WINDOWS, []),
        (What.TIMERS, [["EVENT_TIME", WINDOW]]),
    ],
)
def test_a_wrong_answer_of_any_kind_is_found(history: History, what: What, wrong: object) -> None:
    element = {What.ENTRY: 3, What.WINDOW: WINDOW}.get(what)
    fields: dict[str, Any] = {} if element is None else {"element": element}
    read = dataclasses.replace(right(history, 20, what, **fields), value=wrong)
    assert kinds(history, read) == [Kind.WRONG_VALUE]


def test_a_right_value_of_another_key_group_is_found(history: History) -> None:
    read = right(history, 20, What.EXPLAINED)
    wrong = dataclasses.replace(read, value=[read.value[0], key_group(KEY) + 1])
    assert kinds(history, wrong) == [Kind.WRONG_VALUE]


def test_a_lost_update_is_found(history: History) -> None:
    """The value is of the batch before the last one that changed the key, the version is not."""
    changed = max(
        version
        for version in range(1, NEWEST)
        if history.value(TOTALS, KEY, version) != history.value(TOTALS, KEY, version - 1)
    )
    lost = dataclasses.replace(
        right(history, changed), value=history.value(TOTALS, KEY, changed - 1)
    )
    assert kinds(history, lost) == [Kind.WRONG_VALUE]


def test_a_cut_of_two_batches_is_found(history: History) -> None:
    whole = [right(history, 20, cut=7, key=key) for key in KEYS[:4]]
    assert not kinds(history, *whole)
    torn = right(history, 19, cut=7, key=KEYS[4], started=120.2, ended=120.3)
    assert kinds(history, *whole, torn) == [Kind.TORN]
    assert not kinds(history, *whole, dataclasses.replace(torn, cut=0))


def test_a_cut_may_be_as_old_as_its_oldest_owner_and_no_older(history: History) -> None:
    """One owner knew of the newer batch: that alone does not make the cut too old."""
    one = right(history, 21, key=KEYS[0], ended=121.3)
    other = right(history, 20, key=KEYS[1])
    later: dict[str, Any] = {"started": 125.0, "ended": 125.1, "cut": 7}
    cut = [right(history, 20, key=key, **later) for key in KEYS[:2]]
    assert not kinds(history, one, other, *cut)
    both = right(history, 21, key=KEYS[1], ended=121.3)
    assert kinds(history, one, both, *cut) == [Kind.WENT_BACK] * 2
    # And what a cut has shown holds for each of its keys.
    newer = [right(history, 22, key=key, cut=8) for key in KEYS[:2]]
    behind = right(history, 21, key=KEYS[0], started=126.0, ended=126.1)
    assert kinds(history, *newer, behind) == [Kind.WENT_BACK]


def test_a_key_that_comes_twice_in_a_scan_is_found(history: History) -> None:
    read = page(history, 20)
    items = read.value[0]
    assert kinds(history, with_items(read, [*items, items[0]])) == [Kind.WRONG_VALUE]
    assert kinds(history, with_items(read, [items[0], *items])) == [Kind.WRONG_VALUE]


def test_a_key_that_is_missing_or_misplaced_in_a_scan_is_found(history: History) -> None:
    read = page(history, 20)
    items = read.value[0]
    assert kinds(history, with_items(read, items[:-1])) == [Kind.WRONG_VALUE]
    assert kinds(history, with_items(read, [items[1], items[0], *items[2:]])) == [Kind.WRONG_VALUE]


def test_a_key_outside_of_the_span_is_found(history: History) -> None:
    inside = page(history, 20, span=Span(prefix="key_2"))
    outside = dataclasses.replace(inside, span=Span(prefix="key_3"))
    assert kinds(history, inside) == []
    assert kinds(history, outside) == [Kind.WRONG_VALUE]


def test_a_scan_with_values_of_two_batches_is_found(history: History) -> None:
    old, new = page(history, 12), page(history, 20)
    mixed = list(new.value[0])
    place = next(i for i, item in enumerate(new.value[0]) if item not in old.value[0])
    key = mixed[place][0]
    mixed[place] = [key, history.value(TOTALS, key, 12)]
    assert kinds(history, with_items(new, mixed)) == [Kind.WRONG_VALUE]


def test_an_incomplete_scan_that_says_to_be_complete_is_found(history: History) -> None:
    short = page(history, 20, span=Span(limit=3))
    assert short.value[1:] == [True, False]
    assert not kinds(history, short)
    claims = dataclasses.replace(short, value=[short.value[0], False, True])
    assert kinds(history, claims) == [Kind.WRONG_VALUE]


def test_pages_with_a_gap_an_overlap_or_two_batches_are_found(history: History) -> None:
    first = page(history, 20, span=Span(limit=5), cut=7)
    after = first.value[0][-1][0]
    second = page(history, 20, span=Span(limit=5, after=after), cut=7)
    assert not kinds(history, first, second)
    order = scanned_order(KEYS)
    place = order.index(after)
    for other in (order[place - 1], order[place + 1]):
        wrong = dataclasses.replace(
            second, value=page(history, 20, span=Span(limit=5, after=other)).value
        )
        assert kinds(history, first, wrong) == [Kind.WRONG_VALUE]
    newer = page(history, 21, span=Span(limit=5, after=after), cut=7)
    assert kinds(history, first, newer) == [Kind.TORN]


def test_a_scan_that_goes_back_is_found_and_one_that_goes_on_may(history: History) -> None:
    whole = page(history, 22)
    later: dict[str, Any] = {"started": 130.0, "ended": 130.1}
    assert kinds(history, whole, page(history, 21, **later)) == [Kind.WENT_BACK]
    rest = page(history, 21, span=Span(after=KEYS[3]), **later)
    assert not kinds(history, whole, rest)
    # And for each key of the scan.
    assert kinds(history, whole, right(history, 21, **later)) == [Kind.WENT_BACK]


@pytest.mark.parametrize("what", [What.EXISTS, What.SIZE, What.EXPLAINED])
def test_another_kind_of_question_does_not_go_back_either(history: History, what: What) -> None:
    state = RECENT if what == What.SIZE else TOTALS
    shown = right(history, 22, state=state)
    later = right(history, 21, what, started=130.0, ended=130.1)
    assert kinds(history, shown, later) == [Kind.WENT_BACK]


def test_an_entry_that_was_not_missing_any_more_is_found(history: History) -> None:
    """An answer without a value says no batch: one of those it may be of must fit."""
    has = [v for v in range(NEWEST + 1) if _entry(history, v) is not MISSING]
    without = [v for v in range(NEWEST + 1) if _entry(history, v) is MISSING]
    assert has[0] > without[0]
    missing = right(history, without[0], What.ENTRY, element=3)
    missing = dataclasses.replace(missing, version=None, started=200.0, ended=200.1)
    last = max(without)
    shown = right(history, last, What.ENTRY, element=3)
    assert not kinds(history, shown, missing)
    if last < NEWEST:
        shown = right(history, last + 1, What.ENTRY, element=3)
        assert kinds(history, shown, missing) == [Kind.WENT_BACK]


def _entry(history: History, version: int) -> object:
    return right(history, version, What.ENTRY, element=3).value


def test_a_batch_older_than_asked_for_is_found(history: History) -> None:
    """Who has committed batch 21 reads it."""
    asked: dict[str, Any] = {"mode": Mode.AT_LEAST, "bound": 21.0, "started": 125.0, "ended": 125.1}
    assert not kinds(history, right(history, 21, **asked))
    assert kinds(history, right(history, 20, **asked)) == [Kind.TOO_OLD]
    assert kinds(history, page(history, 20, **asked)) == [Kind.TOO_OLD]
    stale: dict[str, Any] = {"mode": Mode.WITHIN, "started": 125.0, "ended": 125.1}
    assert not kinds(history, right(history, 21, bound=4.5, **stale))
    assert kinds(history, right(history, 20, bound=4.5, **stale)) == [Kind.TOO_OLD]
    # A page that goes on is of the batch of the one before, however old that has become.
    assert not kinds(history, page(history, 20, bound=4.5, span=Span(after=KEYS[3]), **stale))


def test_uncommitted_answers_are_of_the_batch_or_the_one_before(history: History) -> None:
    changing = next(
        version
        for version in range(20, NEWEST)
        if history.value(TOTALS, KEY, version) != history.value(TOTALS, KEY, version - 1)
        and history.value(TOTALS, KEY, version - 1) != history.value(TOTALS, KEY, version - 2)
    )
    # Before the commit, too.
    asked: dict[str, Any] = {"mode": Mode.UNCOMMITTED, "started": 50.0, "ended": 50.1}
    named = right(history, changing, **asked)
    before, long_before = (
        dataclasses.replace(named, value=history.value(TOTALS, KEY, changing - back))
        for back in (1, 2)
    )
    assert not kinds(history, named, before)
    assert kinds(history, long_before) == [Kind.WRONG_VALUE]
    shown = right(history, changing + 1, started=40.0, ended=135.0)
    late = dataclasses.replace(named, started=140.0, ended=140.1)
    assert kinds(history, shown, late) == [Kind.WENT_BACK]


def test_uncommitted_scans_have_each_key_once_of_its_own_batch(history: History) -> None:
    read = page(history, 20, mode=Mode.UNCOMMITTED)
    items = [[key, value, 20] for key, value in read.value[0]]
    assert not kinds(history, with_items(read, items))
    newer = dict(map(tuple, page(history, 21).value[0]))
    moved_on = [*items[:5], *([key, newer[key], 21] for key, _, _ in items[5:])]
    assert not kinds(history, with_items(read, moved_on))
    assert kinds(history, with_items(read, [*items, items[0]])) == [Kind.WRONG_VALUE]
    assert kinds(history, with_items(read, items[1:])) == [Kind.WRONG_VALUE]
    assert kinds(history, with_items(read, [[KEYS[0], [1, 1, 1], 20]])) == [Kind.WRONG_VALUE]


def test_without_a_fault_only_what_is_gone_or_not_there_yet_is_refused(history: History) -> None:
    refused = dataclasses.replace(right(history, 20), error="RetryLaterError", version=None)
    gone = dataclasses.replace(refused, error="VersionGoneError")
    early = dataclasses.replace(refused, mode=Mode.AT_LEAST, bound=25.0)
    late = dataclasses.replace(early, started=126.0, ended=126.1)
    assert kinds(history, refused, calm=ALWAYS) == [Kind.REFUSED]
    assert kinds(history, refused, calm=[(0.0, 120.25), (121.0, 200.0)]) == []
    assert kinds(history, gone, early, calm=ALWAYS) == []
    assert kinds(history, late, calm=ALWAYS) == [Kind.REFUSED]
