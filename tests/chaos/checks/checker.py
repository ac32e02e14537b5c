"""Whether what readers were told can be true.

A committed answer at version N is exactly what the state after batch N makes it, and did not come
before Spark committed N; it has whatever its kind of question promises: all values of a cut, and
all pages of a scan, are of one batch. An uncommitted one is of the batch it names or the one
before it. No question that began after a committed answer had ended shows an older batch: the
order stands in `order.py`. A batch whose commit was withdrawn is
not shown before its second one. A refusal is of a class that tells the caller what to do, and is
never one that says state is lost or the system is at fault.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.chaos.checks.expected import expected, is_right, scanned_order
from tests.chaos.checks.order import fits, went_back
from tests.chaos.checks.reads import Mode, What
from tests.chaos.history.history import MISSING

from queryable_state import client
from queryable_state.wire import errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.chaos.checks.reads import Read
    from tests.chaos.faults.withdrawals import Withdrawal
    from tests.chaos.history.history import History

DEFECTS = frozenset({"InternalError", "CorruptDataError", "StateLostError"})
"""Refusals no fault of a round may lead to."""
GONE = "VersionGoneError"
"""A page or a cut of a batch that is folded away meanwhile; needs no fault."""
BEHIND = frozenset({"RetryLaterError", "QueryTimeoutError"})
"""What is asked for did not come in time."""
_CLOCKS_S = 0.005
"""By how much times of two processes, in whole milliseconds, may be apart."""


class Kind(enum.StrEnum):
    """What is wrong."""

    WRONG_VALUE = "a value that no batch made"
    TORN = "one cut of several batches"
    WENT_BACK = "a version older than one that was shown before"
    TOO_OLD = "a version older than the one asked for"
    UNCOMMITTED = "a batch shown before it was committed"
    LOST = "a key without its value at the end"
    REFUSED = "a refusal that no fault excuses"
    LEFT_OVER = "something left behind"
    STUCK = "no progress"
    NOT_REFUSED = "something that must be refused by name was not"
    OUTPUT = "rows of the sink are not those of the input"
    WATERMARK = "a watermark that the rows before do not make"


@dataclass(frozen=True)
class Violation:
    """One broken promise."""

    kind: Kind
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


def check_reads(
    history: History,
    reads: Iterable[Read],
    committed_at: Mapping[int, float],
    newest: int,
    *,
    calm: Sequence[tuple[float, float]] = (),
    withdrawn: Sequence[Withdrawal] = (),
) -> list[Violation]:
    """What is wrong with the reads of one round.

    `committed_at` has the time of each commit that is still known, the first one of a batch that
    was `withdrawn`; `newest` is the newest batch that was given to the job. In a `calm` time, from
    its begin to its end, nothing is refused but what is gone.
    """
    found: list[Violation] = []
    answers: list[Read] = []
    cuts: dict[int, Read] = {}
    for read in reads:
        if read.refused:
            found += _check_refusal(read, committed_at, calm)
            continue
        answers.append(read)
        if read.mode != Mode.UNCOMMITTED or not any(each.took_along(read) for each in withdrawn):
            found += _check_answer(history, read, committed_at, newest)
        found += _check_bound(history, read, newest)
        if read.mode != Mode.UNCOMMITTED:
            found += (
                Violation(Kind.UNCOMMITTED, f"{read}; withdrawn, and again at {each.again_at:.3f}")
                for each in withdrawn
                if each.is_before_second_commit(read)
            )
        if read.cut and read.version is not None:
            first = cuts.setdefault(read.cut, read)
            if read.version != first.version:
                found.append(Violation(Kind.TORN, f"{read}; the same cut has {first}"))
    for read, shown in went_back(history, answers, newest, withdrawn):
        found.append(Violation(Kind.WENT_BACK, f"{read}; after {shown}"))
    return found


def check_final(history: History, reads: Iterable[Read], newest: int) -> list[Violation]:
    """What is wrong with reads after the last batch."""
    found = []
    for read in reads:
        truth = expected(history, read, newest)
        if read.refused:
            found.append(Violation(Kind.LOST, f"{read}; should be {truth}"))
        elif not is_right(history, read, newest):
            kind = Kind.LOST if read.value is MISSING else Kind.WRONG_VALUE
            found.append(Violation(kind, f"{read}; should be {truth} at the end"))
        elif read.version is not None and read.version != newest:
            found.append(Violation(Kind.WENT_BACK, f"{read}; the last batch is {newest}"))
    return found


def _check_refusal(
    read: Read, committed_at: Mapping[int, float], calm: Sequence[tuple[float, float]]
) -> list[Violation]:
    known = any(isinstance(getattr(each, read.error, None), type) for each in (client, errors))
    in_calm = any(begin <= read.started and read.ended <= end for begin, end in calm)
    excused = not in_calm or read.error == GONE or _may_be_behind(read, committed_at)
    if known and excused and read.error not in DEFECTS:
        return []
    return [Violation(Kind.REFUSED, str(read))]


def _may_be_behind(read: Read, committed_at: Mapping[int, float]) -> bool:
    """Whether a batch was asked for that was not committed in time."""
    if read.error not in BEHIND:
        return False
    if read.mode == Mode.AT_LEAST:
        return committed_at.get(int(read.bound), read.ended) > read.started
    return read.mode == Mode.WITHIN


def _check_answer(
    history: History, read: Read, committed_at: Mapping[int, float], newest: int
) -> list[Violation]:
    version = read.version
    if read.what == What.MEASURE and read.value != expected(history, read, newest):
        return [Violation(Kind.WRONG_VALUE, str(read))]
    if version is None:
        return []
    if version > newest:
        return [Violation(Kind.WRONG_VALUE, f"{read}; there were batches up to {newest} alone")]
    if read.mode == Mode.UNCOMMITTED:
        if _is_uncommitted(history, read, version):
            return []
        return [Violation(Kind.WRONG_VALUE, f"{read}; of neither that batch nor the one before")]
    found = []
    if not is_right(history, read, version):
        truth = expected(history, read, version)
        found.append(Violation(Kind.WRONG_VALUE, f"{read}; was {truth} after that batch"))
    committed = committed_at.get(version)
    if committed is not None and read.ended < committed:
        found.append(Violation(Kind.UNCOMMITTED, f"{read}; committed at {committed:.3f}"))
    return found


def _is_uncommitted(history: History, read: Read, version: int) -> bool:
    """Whether an answer can be what is sealed on some owners, and not yet on others."""
    if read.what != What.SCAN:
        return any(is_right(history, read, of) for of in (version, version - 1))
    # Of an uncommitted scan every page stands alone: items say the batch of theirs.
    items, rest, complete = read.value
    given = {key: (value, of) for key, value, of in items}
    batches = {version, *(of for _, _, of in items)}
    pages = {
        of: dict(map(tuple, expected(history, read, of)[0]))
        for of in range(min(batches) - 1, max(batches) + 1)
    }
    order = [key for key in scanned_order(history.keys_of(read.state)) if key in given]
    return (
        [key for key, _, _ in items] == order
        and not rest
        and complete
        and all(
            any(key in pages[each] and pages[each][key] == value for each in (of, of - 1))
            for key, (value, of) in given.items()
        )
        and all(
            key in given or any(key not in page for page in pages.values())
            for key in set().union(*pages.values())
        )
    )


def _check_bound(history: History, read: Read, newest: int) -> list[Violation]:
    """Whether the batch is as new as it was asked for."""
    if read.mode == Mode.AT_LEAST and not fits(history, read, int(read.bound), newest):
        return [Violation(Kind.TOO_OLD, str(read))]
    if read.mode != Mode.WITHIN or read.version is None or read.goes_on:
        return []
    if read.commit_s < read.started - read.bound - _CLOCKS_S:
        return [Violation(Kind.TOO_OLD, f"{read}; committed at {read.commit_s:.3f}")]
    return []
