"""Snapshot read: values of many keys of one batch, also over several owners."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from queryable_state.server.query.reads.unary_reads import placed_at, value_positions
from queryable_state.v1 import query_pb2
from queryable_state.wire.consistent_snapshot import check_snapshot, read_snapshot, starts_over

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from queryable_state.server.query.router import Router
    from queryable_state.v1 import errors_pb2
    from queryable_state.wire.consistent_snapshot import Snapshot

# Share of the query's time, so that the caller receives the reason before it gives up.
_PART_OF_DEADLINE = 0.9


async def snapshot_answers(router: Router, query: query_pb2.Query) -> list[query_pb2.Answer]:
    """Returns all parts of the answer; all values and missing keys are of one batch.

    Keys fail if their owners refuse them, and with VERSION_GONE if no batch could be read from all
    owners before the deadline.
    """
    check_snapshot(query.consistency)
    loop = asyncio.get_running_loop()
    deadline_s = loop.time() + query.deadline_ms / 1000 * _PART_OF_DEADLINE

    async def read() -> _AnswersRead:
        query.deadline_ms = _ms_until(deadline_s)
        return _AnswersRead(router, query, deadline_s, await router.answers(query))

    return (await read_snapshot(read, deadline_s=deadline_s)).answers


class _AnswersRead:
    """The answers of one read; a part is an index into `answers`."""

    def __init__(
        self,
        router: Router,
        query: query_pb2.Query,
        deadline_s: float,
        answers: list[query_pb2.Answer],
    ) -> None:
        self.answers = answers
        self._router = router
        self._query = query
        self._deadline_s = deadline_s

    def versions(self) -> dict[int, int]:
        return {at: each.info.version for at, each in enumerate(self.answers) if _was_read(each)}

    async def read_again(self, snapshot: Snapshot[int]) -> errors_pb2.Error | None:
        query, answers = self._query, self.answers
        positions = sorted(at for part in snapshot.again for at in _read_at(answers[part], query))
        older = _query_at(query, positions, snapshot.version)
        older.deadline_ms = _ms_until(self._deadline_s)
        reread = await self._router.answers(older)
        newer = [_failures_of(answers[part]) for part in snapshot.again]
        kept = [part for at, part in enumerate(answers) if at not in snapshot.again]
        gone = next(filter(starts_over, _refusals(reread)), None)
        found = [placed_at(positions, part) for part in reread]
        self.answers = _renumbered(query.id, [*kept, *newer, *found])
        return gone


def _ms_until(deadline_s: float) -> int:
    return max(1, int((deadline_s - asyncio.get_running_loop().time()) * 1000))


def _was_read(answer: query_pb2.Answer) -> bool:
    return bool(answer.values or answer.missing)


def _read_at(answer: query_pb2.Answer, query: query_pb2.Query) -> Iterable[int]:
    yield from value_positions(answer, len(query.keys))
    yield from answer.missing


def _query_at(query: query_pb2.Query, positions: Sequence[int], version: int) -> query_pb2.Query:
    """Returns the query for some of its keys, as of one batch."""
    part = query_pb2.Query()
    part.CopyFrom(query)
    part.keys[:] = [query.keys[at] for at in positions]
    if len(query.elements) == len(query.keys):
        part.elements[:] = [query.elements[at] for at in positions]
    if len(query.ranges) == len(query.keys):
        del part.ranges[:]
        part.ranges.extend(query.ranges[at] for at in positions)
    if len(query.windows) == len(query.keys):
        del part.windows[:]
        part.windows.extend(query.windows[at] for at in positions)
    # The first read has satisfied both; by now the batch may be older than they allow.
    part.ClearField("min_version")
    part.ClearField("max_staleness_ms")
    part.ClearField("timeline")
    part.at_version = version
    return part


def _refusals(answers: Sequence[query_pb2.Answer]) -> Iterable[errors_pb2.Error]:
    for answer in answers:
        if answer.HasField("error"):
            yield answer.error
        for failed in answer.failed:
            yield failed.error


def _failures_of(answer: query_pb2.Answer) -> query_pb2.Answer:
    """The failures of a part whose keys were read again."""
    return query_pb2.Answer(failed=answer.failed, info=answer.info)


def _renumbered(query_id: int, parts: Sequence[query_pb2.Answer]) -> list[query_pb2.Answer]:
    """The parts that are not empty, numbered as one answer."""
    filled = [
        part
        for part in parts
        if part.values or part.missing or part.failed or part.HasField("error")
    ]
    for number, part in enumerate(filled):
        part.id = query_id
        part.part = number
        part.last = number == len(filled) - 1
    return filled
