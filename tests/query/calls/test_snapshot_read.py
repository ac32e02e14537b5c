"""Snapshot reads over owners that are not at the same batch."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc.aio
import pytest
from tests.query.streams import VALUES, wire_keys

from queryable_state.server.query.reads.snapshot_read import snapshot_answers
from queryable_state.server.query.reads.unary_reads import value_positions
from queryable_state.server.query.router import Router
from queryable_state.v1 import query_pb2, query_pb2_grpc
from queryable_state.wire.errors import InvalidRequestError, PlacementError, VersionGoneError
from queryable_state.wire.status import error_from_call

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.server.testing.cluster import InProcessJob

ALL = [f"sensor_{number}" for number in range(100)]


class Owners(Router):
    """Owners of one key each, whose values are their batch and who keep two batches.

    `commits` is called before each question and may change `newest`.
    """

    session = scan = watch = measure = None  # type: ignore[assignment]
    locate = registered = list_jobs = list_states = aclose = None  # type: ignore[assignment]
    describe_job = list_servers = hot_keys = None  # type: ignore[assignment]

    def __init__(self, *newest: int, commits: Callable[[Owners], None] = lambda _: None) -> None:
        self.newest = list(newest)
        self.kept = 2
        self.asked: list[tuple[list[bytes], int | None]] = []
        self._commits = commits

    async def answers(self, query: query_pb2.Query) -> list[query_pb2.Answer]:
        self._commits(self)
        at = query.at_version if query.HasField("at_version") else None
        self.asked.append((list(query.keys), at))
        return [self._answer(position, key[0], at) for position, key in enumerate(query.keys)]

    def _answer(self, position: int, owner: int, at: int | None) -> query_pb2.Answer:
        newest = self.newest[owner]
        if at is not None and at <= newest - self.kept:
            failed = query_pb2.KeyFailure(
                indexes=[position], error=VersionGoneError("folded").to_proto()
            )
            return query_pb2.Answer(failed=[failed], info=query_pb2.ReadInfo(version=newest))
        version = newest if at is None else at
        answer = query_pb2.Answer(info=query_pb2.ReadInfo(version=version))
        if owner == 2:
            answer.missing.append(position)
        else:
            answer.indexes.append(position)
            answer.values.append(b"%d" % version)
        return answer


def _query(owners: Owners, **fields: Any) -> query_pb2.Query:
    keys = [bytes((number,)) for number in range(len(owners.newest))]
    given: dict[str, Any] = {"id": 9, "keys": keys, "deadline_ms": 5_000}
    return query_pb2.Query(**(given | fields))


def _values(answers: list[query_pb2.Answer], keys: int) -> dict[int, bytes]:
    assert [part.part for part in answers] == list(range(len(answers)))
    assert [part.last for part in answers] == [False] * (len(answers) - 1) + [True]
    spoken_of = [at for part in answers for at in (*value_positions(part, keys), *part.missing)]
    spoken_of += [at for part in answers for failed in part.failed for at in failed.indexes]
    assert sorted(spoken_of) == list(range(keys))
    return {
        at: value
        for part in answers
        for at, value in zip(value_positions(part, keys), part.values, strict=True)
    }


async def test_owners_that_are_ahead_are_queried_at_the_batch_of_the_others() -> None:
    owners = Owners(5, 4, 5)
    answers = await snapshot_answers(owners, _query(owners, elements=[b"x", b"y", b"z"]))
    assert _values(answers, 3) == {0: b"4", 1: b"4"}
    assert {part.info.version for part in answers} == {4}
    assert owners.asked[1:] == [([b"\x00", b"\x02"], 4)]


async def test_owners_of_one_batch_are_queried_once() -> None:
    owners = Owners(4, 4, 4)
    answers = await snapshot_answers(owners, _query(owners))
    assert {part.info.version for part in answers} == {4}
    assert len(owners.asked) == 1


async def test_the_read_starts_over_if_its_snapshot_is_gone() -> None:
    def commit_two(owners: Owners) -> None:
        if len(owners.asked) == 1:
            owners.newest = [7, 6]

    owners = Owners(5, 4, commits=commit_two)
    answers = await snapshot_answers(owners, _query(owners))
    assert _values(answers, 2) == {0: b"6", 1: b"6"}
    assert [at for _, at in owners.asked] == [None, 4, None, 6]


async def test_without_a_snapshot_the_keys_fail_in_time() -> None:
    """One owner stands still, the other goes on."""

    def go_on(owners: Owners) -> None:
        owners.newest[0] += 2

    owners = Owners(5, 4, commits=go_on)
    async with asyncio.timeout(10):
        answers = await snapshot_answers(owners, _query(owners, deadline_ms=300))
    assert _values(answers, 2) == {1: b"4"}
    [failed] = [failed for part in answers for failed in part.failed]
    assert list(failed.indexes) == [0]


async def test_keys_whose_owner_refuses_take_no_part() -> None:
    class OneRefuses(Owners):
        def _answer(self, position: int, owner: int, at: int | None) -> query_pb2.Answer:
            if owner == 1:
                error = PlacementError("moved").to_proto()
                failed = query_pb2.KeyFailure(indexes=[position], error=error)
                return query_pb2.Answer(failed=[failed])
            return super()._answer(position, owner, at)

    owners = OneRefuses(5, 4)
    answers = await snapshot_answers(owners, _query(owners))
    assert [value for part in answers for value in part.values] == [b"5"]
    assert len(owners.asked) == 1


async def test_a_snapshot_over_sockets_while_batches_are_committed(
    channel: grpc.aio.Channel, job: InProcessJob
) -> None:
    """The values of each answer are of the batch it says, on all owners."""
    stub: Any = query_pb2_grpc.QueryableStateStub(channel)
    request = query_pb2.BatchGetKvStateRequest(
        state_name="last", keys=wire_keys(*ALL), one_cut=True
    )
    await job.run(1, {"last": dict.fromkeys(ALL, 1.0)})

    async def commit() -> None:
        for batch in range(2, 12):
            await job.run(batch, {"last": dict.fromkeys(ALL, float(batch))})

    committing = asyncio.create_task(commit())
    versions = []
    while not committing.done():
        answers = (await stub.BatchGetKvState(request, timeout=20)).answers
        assert not any(part.failed or part.HasField("error") for part in answers)
        [version] = {part.info.version for part in answers}
        values = [VALUES.decode(value) for part in answers for value in part.values]
        assert values == [float(version)] * 100
        versions.append(version)
    await committing
    assert versions == sorted(versions)


async def test_uncommitted_values_have_no_snapshot(
    channel: grpc.aio.Channel, job: InProcessJob
) -> None:
    stub: Any = query_pb2_grpc.QueryableStateStub(channel)
    request = query_pb2.BatchGetKvStateRequest(
        state_name="last",
        keys=wire_keys(*ALL),
        one_cut=True,
        consistency=query_pb2.UNCOMMITTED,
    )
    with pytest.raises(grpc.aio.AioRpcError) as failure:
        await stub.BatchGetKvState(request, timeout=10)
    assert isinstance(error_from_call(failure.value, "server"), InvalidRequestError)
