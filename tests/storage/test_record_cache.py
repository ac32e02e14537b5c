"""What queries read of a base is kept, and never older than what is committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.storage.record_cache import RecordCache

if TYPE_CHECKING:
    from tests.storage.conftest import Advance

    from queryable_state.server.storage.store import StateStore

STATE = 7
EVERYTHING = 100_000
ROOM = 1 << 20


class Base:
    """Records, and how often each was read."""

    def __init__(self, **records: bytes) -> None:
        self.records = {key.encode(): value for key, value in records.items()}
        self.reads: list[bytes] = []

    def read(self, key: bytes) -> bytes | None:
        self.reads.append(key)
        return self.records.get(key)


def test_a_record_is_read_from_the_base_once() -> None:
    base = Base(a=b"1")
    cache = RecordCache(base.read, ROOM)
    assert [cache.get(b"a"), cache.get(b"a")] == [b"1", b"1"]
    assert base.reads == [b"a"]


def test_an_empty_value_is_a_record() -> None:
    base = Base(a=b"")
    cache = RecordCache(base.read, ROOM)
    assert [cache.get(b"a"), cache.get(b"a")] == [b"", b""]
    assert base.reads == [b"a"]


def test_that_there_is_no_record_is_asked_of_the_base_each_time() -> None:
    base = Base()
    cache = RecordCache(base.read, ROOM)
    assert cache.get(b"a") is None
    base.records[b"a"] = b"1"
    assert cache.get(b"a") == b"1"


def test_what_was_written_is_read_anew() -> None:
    base = Base(a=b"1", b=b"1", c=b"1")
    cache = RecordCache(base.read, ROOM)
    for key in (b"a", b"b", b"c"):
        cache.get(key)
    base.records = {b"a": b"2", b"c": b"1"}
    cache.wrote([b"a", b"b", b"never read"])
    assert [cache.get(key) for key in (b"a", b"b", b"c")] == [b"2", None, b"1"]
    assert base.reads == [b"a", b"b", b"c", b"a", b"b"]


def test_what_was_read_first_goes_when_there_is_no_more_room() -> None:
    keys = [b"%03d" % number for number in range(100)]
    base = Base(**{key.decode(): b"v" * 700 for key in keys})
    cache = RecordCache(base.read, 10 * 1024)
    for key in keys:
        cache.get(key)
    base.reads.clear()
    cache.get(keys[-1])
    assert base.reads == []
    cache.get(keys[0])
    assert base.reads == [keys[0]]


def test_a_record_larger_than_the_room_is_answered_and_not_kept() -> None:
    base = Base(a=b"v" * 1000)
    cache = RecordCache(base.read, 100)
    assert cache.get(b"a") == cache.get(b"a") == b"v" * 1000
    assert base.reads == [b"a", b"a"]


def test_room_is_not_lost_by_writing() -> None:
    base = Base(a=b"v" * 1000, b=b"v" * 1000)
    cache = RecordCache(base.read, 3000)
    for _ in range(100):
        cache.get(b"a")
        cache.wrote([b"a"])
    cache.get(b"a")
    cache.get(b"b")
    base.reads.clear()
    cache.get(b"a")
    cache.get(b"b")
    assert base.reads == []


def test_a_store_answers_what_is_committed_whatever_was_read_before(
    store: StateStore, advance: Advance
) -> None:
    advance(store, {b"put": b"0", b"deleted": b"0", b"cleared/1": b"0", b"kept": b"0"})
    keys = (b"put", b"deleted", b"cleared/1", b"kept", b"new")
    store.fold(0, EVERYTHING)
    assert [store.get(STATE, key) for key in keys] == [b"0", b"0", b"0", b"0", None]
    advance(store, {b"put": b"1", b"new": b"1"}, deletes=[b"deleted"], clears=[b"cleared/"])
    after = [b"1", None, None, b"0", b"1"]
    assert [store.get(STATE, key) for key in keys] == after
    while store.fold(1, 1):
        assert [store.get(STATE, key) for key in keys] == after
    assert [store.get(STATE, key) for key in keys] == after
