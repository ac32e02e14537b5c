"""What queries read of a state is kept, and never older than what is committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.state_server.owner import KEYS, PARALLELISM, VALUES, key_of

from queryable_state.server.state_server.stores.record_cache import ABSENT, RecordCache
from queryable_state.server.storage.overlay import StateOverlay
from queryable_state.v1 import query_pb2

if TYPE_CHECKING:
    from tests.state_server.owner import Owner

VALUE = VALUES.encode(1)
TIMESTAMPED = VALUES.encode(1, 5)

keys = st.sampled_from([b"a", b"b", b"c", b"d"])
steps = st.lists(
    st.one_of(
        st.tuples(st.just("read"), keys, st.none()),
        st.tuples(st.just("write"), keys, st.one_of(st.none(), st.binary(max_size=900))),
        st.tuples(st.just("clear"), keys, st.none()),
    )
)


@given(steps)
def test_what_is_known_is_what_is_committed(
    steps: list[tuple[str, bytes, bytes | None]],
) -> None:
    """Whatever is read, written and cleared, with room for two or three records."""
    cache = RecordCache(1500)
    committed: dict[bytes, bytes] = {}
    for step, key, payload in steps:
        if step == "read":
            if cache.get(key) is None:
                cache.keep(key, committed.get(key, ABSENT))
        elif step == "clear":
            committed.pop(key, None)
            cache.wrote(StateOverlay({}, cleared=(key,)))
        else:
            value = None if payload is None else VALUE + payload
            cache.wrote(StateOverlay({key: value}))
            committed.pop(key, None)
            if value is not None:
                committed[key] = value
        known = cache.get_all([b"a", b"b", b"c", b"d"])
        assert all(
            value in (None, committed.get(key, ABSENT))
            for key, value in zip((b"a", b"b", b"c", b"d"), known, strict=True)
        )


def test_a_record_that_may_expire_is_not_kept() -> None:
    cache = RecordCache()
    cache.keep(b"a", TIMESTAMPED)
    assert cache.get(b"a") is None


def test_what_was_kept_longest_goes_when_there_is_no_more_room() -> None:
    cache = RecordCache(10 * 1024)
    names = [b"%03d" % number for number in range(100)]
    for name in names:
        cache.keep(name, VALUE + b"v" * 700)
    assert cache.get(names[0]) is None
    assert cache.get(names[-1]) is not None


def test_a_record_larger_than_the_room_is_not_kept() -> None:
    cache = RecordCache(100)
    cache.keep(b"a", VALUE + b"v" * 1000)
    assert cache.get(b"a") is None


def test_room_is_not_lost_by_writing_or_by_keeping_twice() -> None:
    cache = RecordCache(3000)
    for _ in range(100):
        cache.keep(b"a", VALUE + b"v" * 1000)
        cache.keep(b"a", VALUE + b"v" * 1000)
        cache.wrote(StateOverlay({b"a": None}))
    cache.keep(b"a", VALUE + b"v" * 1000)
    cache.keep(b"b", VALUE + b"v" * 1000)
    assert None not in cache.get_all([b"a", b"b"])


def test_what_a_commit_changes_stays_known() -> None:
    cache = RecordCache()
    cache.keep(b"a", VALUE)
    cache.wrote(StateOverlay({b"a": VALUE + b"2", b"never read": VALUE}))
    assert cache.get_all([b"a", b"never read"]) == [VALUE + b"2", None]


def test_that_there_is_nothing_is_known_until_a_commit_writes_it() -> None:
    cache = RecordCache()
    cache.keep(b"a", ABSENT)
    assert cache.get(b"a") == ABSENT
    cache.wrote(StateOverlay({b"a": VALUE}))
    assert cache.get(b"a") == VALUE
    cache.wrote(StateOverlay({b"a": None}))
    assert cache.get(b"a") == ABSENT
    cache.wrote(StateOverlay({b"a": TIMESTAMPED}))
    assert cache.get(b"a") is None


def test_a_value_that_may_expire_takes_the_place_of_none() -> None:
    cache = RecordCache()
    cache.keep(b"a", VALUE)
    cache.wrote(StateOverlay({b"a": TIMESTAMPED}))
    assert cache.get(b"a") is None


@pytest.mark.parametrize("read", [2, 10_000])
def test_a_commit_of_very_many_keys_leaves_nothing_older(read: int) -> None:
    cache = RecordCache()
    names = [b"%d" % number for number in range(10_000)]
    for name in names[:read]:
        cache.keep(name, VALUE)
    changes: dict[bytes, bytes | None] = dict.fromkeys(names, VALUE + b"2")
    cache.wrote(StateOverlay({**changes, b"0": None}))
    assert cache.get(b"0") in (None, ABSENT)
    assert cache.get(b"1") in (None, VALUE + b"2")


def values(owner: Owner, *names: str, **fields: object) -> list[int]:
    return [VALUES.decode(value) for value in owner.ask(*names, **fields).values]


async def test_every_answer_is_of_the_newest_batch_whatever_was_read_before(owner: Owner) -> None:
    owner.own_all()
    names = [key_of(subtask) for subtask in range(PARALLELISM)]
    expected = [0] * PARALLELISM
    owner.seal(0, dict.fromkeys(names, 0))
    owner.commit(0)
    for version in range(1, 5):
        owner.seal(version, dict.fromkeys(names[version % 2 :: 2], version))
        assert values(owner, *names) == values(owner, *names) == expected
        owner.commit(version)
        expected[version % 2 :: 2] = [version, version]
        assert values(owner, *names) == values(owner, *names) == expected
        if version == 3:
            await owner.compact(version)


@pytest.mark.parametrize("read", [query_pb2.POINT, query_pb2.SIZE, query_pb2.EXISTS])
def test_a_key_that_was_missing_is_found_from_the_batch_on_that_writes_it(
    owner: Owner, read: query_pb2.ReadKind.ValueType
) -> None:
    owner.own_all()
    owner.seal(0, {"a": 1})
    owner.commit(0)
    for _ in range(2):
        answer = owner.ask("new", "a", "never", read=read)
        assert list(answer.missing) == [0, 2]
        assert len(answer.values) == 1
    owner.seal(1, {"new": 2})
    assert list(owner.ask("new", "a", "never", read=read).missing) == [0, 2]
    owner.commit(1)
    for _ in range(2):
        answer = owner.ask("never", "new", "first asked now", read=read)
        assert list(answer.missing) == [0, 2]
        assert len(answer.values) == 1


def test_an_uncommitted_read_sees_what_is_sealed_and_a_committed_one_never_does(
    owner: Owner,
) -> None:
    owner.own_all()
    name = key_of(0)
    owner.seal(0, {name: 0})
    owner.commit(0)
    assert values(owner, name) == values(owner, name) == [0]
    owner.seal(1, {name: 1})
    for _ in range(2):
        assert values(owner, name, consistency=query_pb2.UNCOMMITTED) == [1]
        assert values(owner, name) == [0]


@pytest.mark.parametrize("read", [query_pb2.POINT, query_pb2.SIZE, query_pb2.EXISTS])
def test_a_key_of_a_subtask_taken_out_is_not_answered_though_it_was_read(
    owner: Owner, read: query_pb2.ReadKind.ValueType
) -> None:
    owned = owner.own(0)
    owner.own(1)
    owner.seal(0, {key_of(0): 1, key_of(1): 2})
    owner.commit(0)
    for _ in range(2):
        assert len(owner.ask(key_of(0), key_of(1), read=read).values) == 2
    owner.table.remove(owned)
    answer = owner.ask(key_of(0), key_of(1), read=read)
    assert len(answer.values) == 1
    assert list(answer.failed[0].indexes) == [0]
    owned.store.destroy()


def test_a_key_asked_for_twice_in_one_query_is_answered_twice(owner: Owner) -> None:
    owner.own_all()
    owner.seal(0, {"a": 7})
    owner.commit(0)
    assert KEYS.of("a") < KEYS.max_parallelism
    assert values(owner, "a", "a") == values(owner, "a", "a") == [7, 7]
