"""What the hot path answers, on stores of both backends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from queryable_state.internal.v1 import changes_pb2
from queryable_state.server.settings import Limits
from queryable_state.server.state_server.engine import QueryEngine
from queryable_state.server.state_server.lease import Lease
from queryable_state.server.state_server.owned_subtask import OwnedSubtask, SubtaskId
from queryable_state.server.state_server.store_factory import StoreFactory
from queryable_state.server.state_server.store_table import StoreTable
from queryable_state.server.storage.overlay import OverlayBuilder
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import Reason
from queryable_state.wire.key_groups import KeyGroups, subtask_of
from queryable_state.wire.store_keys import VOID_NAMESPACE, record_key, window_namespace
from queryable_state.wire.types import Types
from queryable_state.wire.values import ValueCodec

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

QUERY_ID = bytes(range(16))
STATE_ID = 7
PARALLELISM = 4
MAX_PARALLELISM = 128

KEYS = KeyGroups(Types.STRING(), MAX_PARALLELISM)
VALUES = ValueCodec.of(Types.LONG())


class Clock:
    """Time that moves when told to."""

    def __init__(self) -> None:
        self.monotonic_s = 1000.0
        self.now_ms = 1_700_000_000_000

    def advance(self, seconds: float) -> None:
        self.monotonic_s += seconds
        self.now_ms += int(seconds * 1000)


class Server:
    """The parts of a server behind its engine, with a job of one state on some subtasks."""

    def __init__(self, backend: str, directory: Path, clock: Clock) -> None:
        self.clock = clock
        self.lease = Lease(clock=lambda: clock.monotonic_s)
        self.lease.renew(clock.monotonic_s, 10_000, placement_version=3)
        self.table = StoreTable("server")
        self.factory = StoreFactory(backend, directory)  # type: ignore[arg-type]
        self.limits = Limits(batch_keys=100, answer_bytes=200, prefix_records=5)
        self.engine = QueryEngine(
            self.table, self.lease, self.limits, server_id="server", now_ms=lambda: clock.now_ms
        )
        self.registration = registration_pb2.StateRegistration(
            state_id=STATE_ID,
            job_id=QUERY_ID,
            state_name="last",
            queryable_name="last",
            kind=registration_pb2.VALUE,
            key_type=Types.STRING().to_proto(),
            max_parallelism=MAX_PARALLELISM,
        )

    def own(self, subtask: int, *, complete_since: int = 0) -> OwnedSubtask:
        subtask_id = SubtaskId(QUERY_ID, "op", subtask, PARALLELISM, MAX_PARALLELISM)
        store = self.factory.new(subtask_id, -1)
        store.add_state(STATE_ID)
        owned = OwnedSubtask(subtask_id, store, 1, complete_since)
        self.table.job_or_new(QUERY_ID).add(owned)
        self.table.add_state(owned, self.registration)
        return owned

    def seal(
        self,
        version: int,
        values: dict[str, int],
        *,
        namespace: bytes = VOID_NAMESPACE,
        element: bytes = b"",
        expiry_ms: int | None = None,
    ) -> None:
        for subtask in self.table.subtasks():
            builder = OverlayBuilder()
            block = changes_pb2.ChangeBlock(format_version=1, state_id=STATE_ID)
            for key, value in values.items():
                wire_key = KEYS.wire_key(key)
                if subtask_of(KEYS.of(key), PARALLELISM, MAX_PARALLELISM) == subtask.id.subtask:
                    block.put_keys.append(record_key(wire_key, namespace, element))
                    block.put_values.append(VALUES.encode(value, expiry_ms))
            builder.add_block(block)
            subtask.store.seal(version, builder.build(), (1, version + 1))

    def commit(self, version: int, watermark_ms: int = 0) -> None:
        self.table.job_or_new(QUERY_ID).commit(version, self.clock.now_ms, watermark_ms)

    def ask(self, *keys: str, **fields: object) -> query_pb2.Answer:
        query = query_pb2.Query(
            id=5,
            state_id=STATE_ID,
            keys=[KEYS.wire_key(key) for key in keys],
            **fields,  # type: ignore[arg-type]
        )
        return self.engine.answer(query)


@pytest.fixture(params=["heap", "rocksdb"])
def server(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Server]:
    server = Server(request.param, tmp_path / "stores", Clock())
    yield server
    for subtask in server.table.remove_job(QUERY_ID):
        subtask.store.destroy()


def key_of(subtask: int, number: int = 0) -> str:
    """The `number`-th key that belongs to a subtask."""
    found = (
        f"sensor_{i}"
        for i in range(10_000)
        if subtask_of(KEYS.of(f"sensor_{i}"), PARALLELISM, MAX_PARALLELISM) == subtask
    )
    return [next(found) for _ in range(number + 1)][-1]


def decoded(answer: query_pb2.Answer) -> list[int]:
    return [VALUES.decode(value) for value in answer.values]


def test_values_come_in_the_order_of_their_keys_and_the_missing_by_position(server: Server) -> None:
    for subtask in range(PARALLELISM):
        server.own(subtask)
    server.seal(0, {f"k{i}": i for i in range(40)})
    server.commit(0, watermark_ms=99)
    answer = server.ask("k3", "absent", "k1", "k39")
    assert decoded(answer) == [3, 1, 39]
    assert list(answer.missing) == [1]
    assert not answer.indexes
    assert not answer.failed
    assert (answer.id, answer.part, answer.last) == (5, 0, True)
    assert answer.info == query_pb2.ReadInfo(
        version=0,
        commit_time_ms=server.clock.now_ms,
        watermark_ms=99,
        role=query_pb2.OWNER,
        server_id="server",
    )


def test_a_sealed_batch_is_seen_by_uncommitted_reads_only(server: Server) -> None:
    server.own(0)
    key = key_of(0)
    server.seal(0, {key: 1})
    server.commit(0)
    server.seal(1, {key: 2})
    committed = server.ask(key)
    assert (decoded(committed), committed.info.version) == ([1], 0)
    uncommitted = server.ask(key, consistency=query_pb2.UNCOMMITTED)
    assert (decoded(uncommitted), uncommitted.info.version) == ([2], 1)
    assert uncommitted.info.commit_time_ms == 0


def test_a_first_batch_that_is_only_sealed_has_its_version_in_uncommitted_answers(
    server: Server,
) -> None:
    server.own(0)
    server.seal(0, {key_of(0): 1})
    answer = server.ask(key_of(0), consistency=query_pb2.UNCOMMITTED)
    assert (decoded(answer), answer.info.version) == ([1], 0)
    assert server.ask(key_of(0)).info.version == -1


def test_one_commit_shows_in_all_stores_of_the_job(server: Server) -> None:
    for subtask in range(PARALLELISM):
        server.own(subtask)
    keys = [key_of(subtask) for subtask in range(PARALLELISM)]
    server.seal(0, dict.fromkeys(keys, 1))
    assert list(server.ask(*keys).missing) == [0, 1, 2, 3]
    server.commit(0)
    assert decoded(server.ask(*keys)) == [1, 1, 1, 1]


def test_keys_of_others_fail_as_not_owner_in_one_group(server: Server) -> None:
    server.own(0)
    here, there, also_there = key_of(0), key_of(1), key_of(3)
    server.seal(0, {here: 4})
    server.commit(0)
    answer = server.ask(there, here, also_there)
    assert decoded(answer) == [4]
    [failure] = answer.failed
    assert list(failure.indexes) == [0, 2]
    assert failure.error.reason == Reason.NOT_OWNER
    assert failure.error.placement_version == 3


def test_a_state_without_any_part_here_is_refused_as_not_owner(server: Server) -> None:
    answer = server.ask("k")
    assert answer.error.reason == Reason.NOT_OWNER
    assert not answer.HasField("info")


def test_a_range_that_lost_state_fails_unless_incomplete_answers_are_allowed(
    server: Server,
) -> None:
    server.own(0, complete_since=5)
    server.own(1)
    lost, whole = key_of(0), key_of(1)
    server.seal(0, {lost: 1, whole: 2})
    server.commit(0)
    answer = server.ask(lost, whole)
    assert decoded(answer) == [2]
    [failure] = answer.failed
    assert (list(failure.indexes), failure.error.reason) == ([0], Reason.STATE_LOST)
    assert failure.error.complete_since_batch == 5
    allowed = server.ask(lost, whole, allow_incomplete=True)
    assert decoded(allowed) == [1, 2]
    assert allowed.info.complete_since_batch == 5


def test_an_expired_value_is_missing(server: Server) -> None:
    server.own(0)
    key = key_of(0)
    server.seal(0, {key: 1}, expiry_ms=server.clock.now_ms + 2000)
    server.commit(0)
    assert decoded(server.ask(key)) == [1]
    assert server.ask(key, read=query_pb2.PREFIX).values
    server.clock.advance(2)
    assert list(server.ask(key).missing) == [0]
    assert list(server.ask(key, read=query_pb2.PREFIX).missing) == [0]


def test_an_expired_value_is_answered_where_the_state_says_so(server: Server) -> None:
    server.registration.ttl.ttl_ms = 1
    server.registration.ttl.return_expired = True
    server.own(0)
    server.seal(0, {key_of(0): 1}, expiry_ms=server.clock.now_ms)
    server.commit(0)
    assert decoded(server.ask(key_of(0))) == [1]


def test_a_value_whose_header_cannot_be_read_fails_for_its_key_alone(server: Server) -> None:
    """It says that it expires, and is too short to say when."""
    server.own(0)
    good, bad = key_of(0), key_of(0, 1)
    builder = OverlayBuilder()
    builder.add_block(
        changes_pb2.ChangeBlock(
            format_version=1,
            state_id=STATE_ID,
            put_keys=[record_key(KEYS.wire_key(key)) for key in (good, bad)],
            put_values=[VALUES.encode(1), b"\x20\x01"],
        )
    )
    [owned] = server.table.subtasks()
    owned.store.seal(0, builder.build(), (1, 1))
    server.commit(0)
    for read in (query_pb2.POINT, query_pb2.PREFIX):
        answer = server.ask(bad, good, read=read)
        [failure] = answer.failed
        assert (list(failure.indexes), failure.error.reason) == ([0], Reason.CORRUPT)
        assert len(answer.values) == 1
        assert not answer.HasField("error")


def test_without_a_lease_nothing_is_answered(server: Server) -> None:
    server.own(0)
    server.seal(0, {key_of(0): 1})
    server.commit(0)
    server.clock.advance(9.9)
    assert decoded(server.ask(key_of(0))) == [1]
    server.clock.advance(0.2)
    for consistency in (query_pb2.COMMITTED, query_pb2.UNCOMMITTED):
        answer = server.ask(key_of(0), consistency=consistency)
        assert answer.error.reason == Reason.LEASE_EXPIRED
        assert not answer.values


def test_an_older_answer_of_the_coordinator_does_not_shorten_the_lease(server: Server) -> None:
    server.lease.renew(server.clock.monotonic_s - 9, 10_000, placement_version=1)
    assert server.lease.remaining_s == 10
    assert server.lease.placement_version == 3


def test_a_version_or_freshness_not_there_yet_is_told_as_behind(server: Server) -> None:
    server.own(0)
    server.seal(0, {key_of(0): 1})
    server.commit(0)
    behind = server.ask(key_of(0), min_version=1).error
    assert (behind.reason, behind.retry_after_ms > 0) == (Reason.BEHIND, True)
    assert decoded(server.ask(key_of(0), max_staleness_ms=500)) == [1]
    server.clock.advance(1)
    assert server.ask(key_of(0), max_staleness_ms=500).error.reason == Reason.BEHIND
    server.commit(1)
    assert decoded(server.ask(key_of(0), min_version=1, max_staleness_ms=500)) == [1]


def test_a_prefix_read_gives_the_records_of_one_key_and_namespace(server: Server) -> None:
    server.own(0)
    key, neighbour = key_of(0), key_of(0, 1)
    window = window_namespace(0, 10)
    elements = [b"a", b"b"]
    builder = OverlayBuilder()
    block = changes_pb2.ChangeBlock(format_version=1, state_id=STATE_ID)
    for number, element in enumerate(elements):
        for name, namespace in ((key, VOID_NAMESPACE), (key, window), (neighbour, VOID_NAMESPACE)):
            block.put_keys.append(record_key(KEYS.wire_key(name), namespace, element))
            block.put_values.append(VALUES.encode(number))
    builder.add_block(block)
    [owned] = server.table.subtasks()
    owned.store.seal(0, builder.build(), (1, 1))
    server.commit(0)
    answer = server.ask(key, key_of(0, 2), read=query_pb2.PREFIX, namespace=window)
    [records] = [query_pb2.Records.FromString(value) for value in answer.values]
    assert list(records.elements) == elements
    assert [VALUES.decode(value) for value in records.values] == [0, 1]
    assert list(answer.missing) == [1]


def test_more_records_than_a_query_may_read_fail_for_their_key(server: Server) -> None:
    server.own(0)
    builder = OverlayBuilder()
    builder.add_block(
        changes_pb2.ChangeBlock(
            format_version=1,
            state_id=STATE_ID,
            put_keys=[
                record_key(KEYS.wire_key(key_of(0)), VOID_NAMESPACE, bytes([i])) for i in range(6)
            ],
            put_values=[VALUES.encode(i) for i in range(6)],
        )
    )
    [owned] = server.table.subtasks()
    owned.store.seal(0, builder.build(), (1, 1))
    server.commit(0)
    [failure] = server.ask(key_of(0), read=query_pb2.PREFIX).failed
    assert failure.error.reason == Reason.LIMIT_EXCEEDED
    assert "'last'" in failure.error.message


def test_values_beyond_the_size_of_an_answer_are_to_be_asked_again(server: Server) -> None:
    server.own(0)
    keys = [key_of(0, number) for number in range(30)]
    server.seal(0, {key: number for number, key in enumerate(keys)})
    server.commit(0)
    answer = server.ask(*keys)
    size = len(VALUES.encode(0))
    assert decoded(answer) == list(range(200 // size))
    [failure] = answer.failed
    assert list(failure.indexes) == list(range(200 // size, 30))
    assert failure.error.reason == Reason.OVERLOADED


@pytest.mark.parametrize("key", [b"", b"\x00", b"\xff\xffx"])
def test_a_key_without_a_key_group_is_an_invalid_request(server: Server, key: bytes) -> None:
    server.own(0)
    query = query_pb2.Query(id=1, state_id=STATE_ID, keys=[key])
    assert server.engine.answer(query).error.reason == Reason.INVALID_REQUEST
    query.read = query_pb2.PREFIX
    assert server.engine.answer(query).error.reason == Reason.INVALID_REQUEST


def test_a_store_that_cannot_be_read_is_an_error_in_the_answer(server: Server) -> None:
    """A store closed behind the table's back stands for any failure of one."""
    owned = server.own(0)
    owned.store.close()
    assert server.ask(key_of(0)).error.reason != Reason.REASON_UNSPECIFIED


def test_a_subtask_taken_out_is_owned_by_others(server: Server) -> None:
    owned = server.own(0)
    server.own(1)
    server.seal(0, {key_of(0): 1, key_of(1): 2})
    server.commit(0)
    server.table.remove(owned)
    answer = server.ask(key_of(0), key_of(1))
    assert decoded(answer) == [2]
    assert answer.failed[0].error.reason == Reason.NOT_OWNER
    owned.store.destroy()
