"""A query of many keys as of one committed batch, whichever servers hold them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from queryable_state.server.query.reads.answer_positions import placed_at, value_positions
from queryable_state.server.query.retries import delay_s
from queryable_state.v1 import query_pb2
from queryable_state.wire.consistent_snapshot import check_snapshot, is_snapshot_gone, snapshot_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from queryable_state.server.query.router import Router
    from queryable_state.v1 import errors_pb2

# Of the query's time: the caller is to learn why before it gives up.
_PART_OF_DEADLINE = 0.9


async def answers_of_one_cut(router: Router, query: query_pb2.Query) -> list[query_pb2.Answer]:
    """All parts of the answer, all values and missing keys as of the same batch.

    Keys whose owners refuse have failed, with VERSION_GONE where until the deadline no batch was
    to be had of all of them.
    """
    check_snapshot(query.consistency)
    loop = asyncio.get_running_loop()
    until = loop.time() + query.deadline_ms / 1000 * _PART_OF_DEADLINE
    attempts = 0
    while True:
        query.deadline_ms = max(1, int((until - loop.time()) * 1000))
        answers = await router.answers(query)
        read = {at: each.info.version for at, each in enumerate(answers) if _was_read(each)}
        cut = snapshot_of(read) if read else None
        if cut is None or not cut.again:
            return answers
        positions = sorted(at for part in cut.again for at in _read_at(answers[part], query))
        older = _query_at(query, positions, cut.version)
        older.deadline_ms = max(1, int((until - loop.time()) * 1000))
        again = await router.answers(older)
        gone = next((error for error in _refusals(again) if is_snapshot_gone(error)), None)
        delay = delay_s(gone, attempts) if gone is not None else 0.0
        if gone is None or loop.time() + delay >= until:
            newer = [_failures_of(answers[part]) for part in cut.again]
            kept = [part for at, part in enumerate(answers) if at not in cut.again]
            found = [placed_at(positions, part) for part in again]
            return _renumbered(query.id, [*kept, *newer, *found])
        attempts += 1
        await asyncio.sleep(delay)


def _was_read(answer: query_pb2.Answer) -> bool:
    return bool(answer.values or answer.missing)


def _read_at(answer: query_pb2.Answer, query: query_pb2.Query) -> Iterable[int]:
    yield from value_positions(answer, len(query.keys))
    yield from answer.missing


def _query_at(query: query_pb2.Query, positions: Sequence[int], version: int) -> query_pb2.Query:
    """The query for some of its keys as of an exact batch."""
    part = query_pb2.Query()
    part.CopyFrom(query)
    part.keys[:] = [query.keys[at] for at in positions]
    if len(query.elements) == len(query.keys):
        part.elements[:] = [query.elements[at] for at in positions]
    # The cut satisfies both already, and may be too old by now.
    part.ClearField("min_version")
    part.ClearField("max_staleness_ms")
    part.at_version = version
    return part


def _refusals(answers: Sequence[query_pb2.Answer]) -> Iterable[errors_pb2.Error]:
    for answer in answers:
        if answer.HasField("error"):
            yield answer.error
        for failed in answer.failed:
            yield failed.error


def _failures_of(answer: query_pb2.Answer) -> query_pb2.Answer:
    """What stays of a part that was read again."""
    return query_pb2.Answer(failed=answer.failed, info=answer.info)


def _renumbered(query_id: int, parts: Sequence[query_pb2.Answer]) -> list[query_pb2.Answer]:
    """The parts that say anything, as one answer."""
    told = [
        part
        for part in parts
        if part.values or part.missing or part.failed or part.HasField("error")
    ]
    for number, part in enumerate(told):
        part.id = query_id
        part.part = number
        part.last = number == len(told) - 1
    return told
