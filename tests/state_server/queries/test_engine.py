"""What the hot path answers, on stores of both backends."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.state_server.owner import KEYS, PARALLELISM, STATE_ID, VALUES, decoded, key_of

from queryable_state.internal.v1 import changes_pb2
from queryable_state.server.storage.overlay import OverlayBuilder
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import Reason
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE, record_key, window_namespace
from queryable_state.wire.keys.time_window import TIME_WINDOW_TYPE

if TYPE_CHECKING:
    from tests.state_server.owner import Owner


def test_values_come_in_the_order_of_their_keys_and_the_missing_by_position(owner: Owner) -> None:
    for subtask in range(PARALLELISM):
        owner.own(subtask)
    owner.seal(0, {f"k{i}": i for i in range(40)})
    owner.commit(0, watermark_ms=99)
    answer = owner.ask("k3", "absent", "k1", "k39")
    assert decoded(answer) == [3, 1, 39]
    assert list(answer.missing) == [1]
    assert not answer.indexes
    assert not answer.failed
    assert (answer.id, answer.part, answer.last) == (5, 0, True)
    assert answer.info == query_pb2.ReadInfo(
        version=0,
        commit_time_ms=owner.clock.now_ms,
        watermark_ms=99,
        role=query_pb2.OWNER,
        server_id="server",
    )


def test_a_sealed_batch_is_seen_by_uncommitted_reads_only(owner: Owner) -> None:
    owner.own(0)
    key = key_of(0)
    owner.seal(0, {key: 1})
    owner.commit(0)
    owner.seal(1, {key: 2})
    committed = owner.ask(key)
    assert (decoded(committed), committed.info.version) == ([1], 0)
    uncommitted = owner.ask(key, consistency=query_pb2.UNCOMMITTED)
    assert (decoded(uncommitted), uncommitted.info.version) == ([2], 1)
    assert uncommitted.info.commit_time_ms == 0


def test_a_first_batch_that_is_only_sealed_has_its_version_in_uncommitted_answers(
    owner: Owner,
) -> None:
    owner.own(0)
    owner.seal(0, {key_of(0): 1})
    answer = owner.ask(key_of(0), consistency=query_pb2.UNCOMMITTED)
    assert (decoded(answer), answer.info.version) == ([1], 0)
    assert owner.ask(key_of(0)).info.version == -1


def test_one_commit_shows_in_all_stores_of_the_job(owner: Owner) -> None:
    for subtask in range(PARALLELISM):
        owner.own(subtask)
    keys = [key_of(subtask) for subtask in range(PARALLELISM)]
    owner.seal(0, dict.fromkeys(keys, 1))
    assert list(owner.ask(*keys).missing) == [0, 1, 2, 3]
    owner.commit(0)
    assert decoded(owner.ask(*keys)) == [1, 1, 1, 1]


def test_keys_of_others_fail_as_not_owner_in_one_group(owner: Owner) -> None:
    owner.own(0)
    here, there, also_there = key_of(0), key_of(1), key_of(3)
    owner.seal(0, {here: 4})
    owner.commit(0)
    answer = owner.ask(there, here, also_there)
    assert decoded(answer) == [4]
    [failure] = answer.failed
    assert list(failure.indexes) == [0, 2]
    assert failure.error.reason == Reason.NOT_OWNER
    assert failure.error.placement_version == 3


def test_a_state_without_any_part_here_is_refused_as_not_owner(owner: Owner) -> None:
    answer = owner.ask("k")
    assert answer.error.reason == Reason.NOT_OWNER
    assert not answer.HasField("info")


def test_a_range_that_lost_state_fails_unless_incomplete_answers_are_allowed(
    owner: Owner,
) -> None:
    owner.own(0, complete_since=5)
    owner.own(1)
    lost, whole = key_of(0), key_of(1)
    owner.seal(0, {lost: 1, whole: 2})
    owner.commit(0)
    answer = owner.ask(lost, whole)
    assert decoded(answer) == [2]
    [failure] = answer.failed
    assert (list(failure.indexes), failure.error.reason) == ([0], Reason.STATE_LOST)
    assert failure.error.complete_since_batch == 5
    allowed = owner.ask(lost, whole, allow_incomplete=True)
    assert decoded(allowed) == [1, 2]
    assert allowed.info.complete_since_batch == 5


def test_a_value_whose_header_cannot_be_read_fails_for_its_key_alone(owner: Owner) -> None:
    """It says that it has a timestamp, and is too short to have one."""
    owner.registration.ttl.ttl_ms = 1
    owner.own(0)
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
    [owned] = owner.table.subtasks()
    owned.store.seal(0, builder.build(), (1, 1))
    owner.commit(0)
    for read in (query_pb2.POINT, query_pb2.PREFIX):
        answer = owner.ask(bad, good, read=read)
        [failure] = answer.failed
        assert (list(failure.indexes), failure.error.reason) == ([0], Reason.CORRUPT)
        assert len(answer.values) == 1
        assert not answer.HasField("error")


def test_without_a_lease_nothing_is_answered(owner: Owner) -> None:
    owner.own(0)
    owner.seal(0, {key_of(0): 1})
    owner.commit(0)
    owner.clock.advance(9.9)
    assert decoded(owner.ask(key_of(0))) == [1]
    owner.clock.advance(0.2)
    for consistency in (query_pb2.COMMITTED, query_pb2.UNCOMMITTED):
        answer = owner.ask(key_of(0), consistency=consistency)
        assert answer.error.reason == Reason.LEASE_EXPIRED
        assert not answer.values


def test_an_older_answer_of_the_coordinator_does_not_shorten_the_lease(owner: Owner) -> None:
    owner.lease.renew(owner.clock.monotonic_s - 9, 10_000, placement_version=1)
    assert owner.lease.remaining_s == 10
    assert owner.lease.placement_version == 3


def test_a_prefix_read_gives_the_records_of_one_key_and_namespace(owner: Owner) -> None:
    owner.registration.namespace_type.CopyFrom(TIME_WINDOW_TYPE.to_proto())
    owner.own(0)
    key, neighbour = key_of(0), key_of(0, 1)
    window, other = window_namespace(0, 10), window_namespace(10, 20)
    elements = [b"a", b"b"]
    builder = OverlayBuilder()
    block = changes_pb2.ChangeBlock(format_version=1, state_id=STATE_ID)
    for number, element in enumerate(elements):
        for name, namespace in ((key, other), (key, window), (neighbour, other)):
            block.put_keys.append(record_key(KEYS.wire_key(name), namespace, element))
            block.put_values.append(VALUES.encode(number))
    builder.add_block(block)
    [owned] = owner.table.subtasks()
    owned.store.seal(0, builder.build(), (1, 1))
    owner.commit(0)
    answer = owner.ask(key, key_of(0, 2), read=query_pb2.PREFIX, namespace=window)
    [records] = [query_pb2.Records.FromString(value) for value in answer.values]
    assert list(records.elements) == elements
    assert [VALUES.decode(value) for value in records.values] == [0, 1]
    assert list(answer.missing) == [1]


def test_more_records_than_a_query_may_read_fail_for_their_key(owner: Owner) -> None:
    owner.own(0)
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
    [owned] = owner.table.subtasks()
    owned.store.seal(0, builder.build(), (1, 1))
    owner.commit(0)
    [failure] = owner.ask(key_of(0), read=query_pb2.PREFIX).failed
    assert failure.error.reason == Reason.LIMIT_EXCEEDED
    assert "'last'" in failure.error.message


def test_values_beyond_the_size_of_an_answer_are_to_be_asked_again(owner: Owner) -> None:
    owner.own(0)
    keys = [key_of(0, number) for number in range(30)]
    owner.seal(0, {key: number for number, key in enumerate(keys)})
    owner.commit(0)
    answer = owner.ask(*keys)
    size = len(VALUES.encode(0))
    assert decoded(answer) == list(range(200 // size))
    [failure] = answer.failed
    assert list(failure.indexes) == list(range(200 // size, 30))
    assert failure.error.reason == Reason.OVERLOADED


@pytest.mark.parametrize("key", [b"", b"\x00", b"\xff\xffx"])
def test_a_key_without_a_key_group_is_an_invalid_request(owner: Owner, key: bytes) -> None:
    # A kind of which there are slices, and windows.
    owner.registration.kind = registration_pb2.LIST
    owner.registration.namespace_type.CopyFrom(TIME_WINDOW_TYPE.to_proto())
    owner.own(0)
    query = query_pb2.Query(id=1, state_id=STATE_ID, keys=[key])
    for read in query_pb2.ReadKind.values():
        query.read = read
        query.namespace = b"" if read == query_pb2.WINDOWS else window_namespace(0, 10)
        answer = owner.engine.answer(query)
        assert answer is not None
        assert answer.error.reason == Reason.INVALID_REQUEST


def test_a_store_that_cannot_be_read_is_an_error_in_the_answer(owner: Owner) -> None:
    """A store closed behind the table's back stands for any failure of one."""
    owned = owner.own(0)
    owned.store.close()
    assert owner.ask(key_of(0)).error.reason != Reason.REASON_UNSPECIFIED


def test_a_subtask_taken_out_is_owned_by_others(owner: Owner) -> None:
    owned = owner.own(0)
    owner.own(1)
    owner.seal(0, {key_of(0): 1, key_of(1): 2})
    owner.commit(0)
    owner.table.remove(owned)
    answer = owner.ask(key_of(0), key_of(1))
    assert decoded(answer) == [2]
    assert answer.failed[0].error.reason == Reason.NOT_OWNER
    owned.store.destroy()
