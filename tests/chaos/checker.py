"""Whether what readers were told can be true.

A committed read at version N shows exactly the state after batch N, not before Spark committed N.
Versions do not go back: a read that began after another one of the same key had ended shows no
older batch. A refusal is of a class that tells the caller what to do, and is never one that says
state is lost or the system is at fault.
"""

from __future__ import annotations

import enum
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.chaos.history import MISSING

from queryable_state.wire import errors

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from tests.chaos.history import History
    from tests.chaos.reads import Read

DEFECTS = frozenset({"InternalError", "CorruptDataError", "StateLostError"})
"""Refusals no fault of a round may lead to."""


class Kind(enum.StrEnum):
    """What is wrong."""

    WRONG_VALUE = "a value that no batch made"
    WENT_BACK = "a version older than one that was shown before"
    UNCOMMITTED = "a batch shown before it was committed"
    LOST = "a key without its value at the end"
    REFUSED = "a refusal that no fault excuses"
    LEFT_OVER = "something left behind"
    STUCK = "no progress"
    OUTPUT = "rows of the sink are not those of the input"


@dataclass(frozen=True)
class Violation:
    """One broken promise."""

    kind: Kind
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


def check_reads(
    history: History, reads: Iterable[Read], committed_at: Mapping[int, float], newest: int
) -> list[Violation]:
    """What is wrong with the reads of one round.

    `committed_at` has the time of each commit that is still known, `newest` is the newest batch
    that was given to the job.
    """
    found: list[Violation] = []
    by_key: dict[tuple[str, str], list[Read]] = defaultdict(list)
    for read in reads:
        if read.refused:
            found += _check_refusal(read)
            continue
        by_key[read.state, read.key].append(read)
        found += _check_answer(history, read, committed_at, newest)
    for of_key in by_key.values():
        found += _check_order(history, of_key, newest)
    return found


def check_final(history: History, reads: Iterable[Read], newest: int) -> list[Violation]:
    """What is wrong with reads of every key after the last batch."""
    found = []
    for read in reads:
        truth = history.value(read.state, read.key, newest)
        if read.refused:
            found.append(Violation(Kind.LOST, f"{read}; should be {truth}"))
        elif read.value != truth:
            kind = Kind.LOST if read.value is MISSING else Kind.WRONG_VALUE
            found.append(Violation(kind, f"{read}; should be {truth} at the end"))
        elif read.version is not None and read.version != newest:
            found.append(Violation(Kind.WENT_BACK, f"{read}; the last batch is {newest}"))
    return found


def _check_refusal(read: Read) -> list[Violation]:
    known = isinstance(getattr(errors, read.error, None), type)
    if known and read.error not in DEFECTS:
        return []
    return [Violation(Kind.REFUSED, str(read))]


def _check_answer(
    history: History, read: Read, committed_at: Mapping[int, float], newest: int
) -> list[Violation]:
    if read.version is None:
        return []
    if read.version > newest:
        return [Violation(Kind.WRONG_VALUE, f"{read}; there were batches up to {newest} alone")]
    found = []
    truth = history.value(read.state, read.key, read.version)
    if read.value != truth:
        found.append(Violation(Kind.WRONG_VALUE, f"{read}; was {truth} after that batch"))
    committed = committed_at.get(read.version)
    if committed is not None and read.ended < committed:
        found.append(Violation(Kind.UNCOMMITTED, f"{read}; committed at {committed:.3f}"))
    return found


def _check_order(history: History, reads: Sequence[Read], newest: int) -> list[Violation]:
    """Reads of one key: none that began after another had ended shows an older batch."""
    found = []
    by_end = sorted(reads, key=lambda read: read.ended)
    shown, shown_by, ended = -1, None, 0
    for read in sorted(reads, key=lambda read: read.started):
        while by_end[ended].ended < read.started:
            version = by_end[ended].version
            if version is not None and version > shown:
                shown, shown_by = version, by_end[ended]
            ended += 1
        # Of an answer without a value the version is not known: at best the newest that fits.
        version = read.version
        if version is None:
            version = history.last_missing(read.state, read.key, newest)
        if version < shown:
            found.append(Violation(Kind.WENT_BACK, f"{read}; after {shown_by}"))
    return found
