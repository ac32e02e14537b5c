"""Which answers show an older batch than one that was known before they were asked for.

The order is that of keys: whoever asks after a key was shown at batch N, is shown N or a later
one, whichever client, server and kind of question it was. A cut is as old as the oldest of its
owners, so it is not behind what was shown of *all* its keys; nor is a scan behind what was shown of
all keys of the state. Uncommitted answers are not behind committed ones, and nothing has to be
as new as uncommitted ones. A page that goes on with an older one is as old as that. What was shown
of a batch whose commit was withdrawn binds to the batch before (`withdrawals.py`).
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tests.chaos.checks.expected import expected
from tests.chaos.checks.reads import Mode, What
from tests.chaos.faults.withdrawals import bound_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from tests.chaos.checks.reads import Read
    from tests.chaos.faults.withdrawals import Withdrawal
    from tests.chaos.history.history import History

    Key = tuple[str, str]


def went_back(
    history: History,
    answers: Sequence[Read],
    newest: int,
    withdrawn: Sequence[Withdrawal] = (),
) -> Iterator[tuple[Read, Read]]:
    """Answers of an older batch than shown before, each with the one that showed the newer."""
    shown: dict[Key, Read] = {}
    cuts: dict[int, list[Key]] = defaultdict(list)
    for read in answers:
        if read.cut and read.what != What.SCAN:
            cuts[read.cut].append((read.state, read.key))
    by_end = sorted(answers, key=lambda read: read.ended)
    ended = 0
    for read in sorted(answers, key=lambda read: read.started):
        while by_end[ended].ended < read.started:
            _show(by_end[ended], shown)
            ended += 1
        if read.what == What.MEASURE:
            continue
        before = [shown.get(key) for key in _keys(history, read, cuts)]
        bounds = [
            (bound_of(version_of(each), each, read, withdrawn), each)
            for each in before
            if each is not None
        ]
        if not bounds or len(bounds) < len(before):
            continue
        oldest, of = min(bounds, key=lambda bound: bound[0])
        if not fits(history, read, oldest, newest):
            yield read, of


def fits(history: History, read: Read, oldest: int, newest: int) -> bool:
    """Whether an answer can be of one of these batches; one without a value may not say which."""
    if read.version is not None:
        return read.version >= oldest
    return any(
        expected(history, read, version) == read.value for version in range(newest, oldest - 1, -1)
    )


def version_of(read: Read) -> int:
    """The batch of an answer; -1: before the first."""
    return -1 if read.version is None else read.version


def _keys(history: History, read: Read, cuts: dict[int, list[Key]]) -> Iterable[Key]:
    if read.goes_on:
        return ()
    if read.what == What.SCAN:
        return [(read.state, key) for key in history.keys_of(read.state)]
    return cuts[read.cut] if read.cut else [(read.state, read.key)]


def _show(read: Read, shown: dict[Key, Read]) -> None:
    if read.mode == Mode.UNCOMMITTED or read.version is None:
        return
    keys = (
        [(read.state, key) for key, _ in read.value[0]] if read.span else [(read.state, read.key)]
    )
    for key in keys:
        known = shown.get(key)
        if known is None or version_of(known) <= read.version:
            shown[key] = read
