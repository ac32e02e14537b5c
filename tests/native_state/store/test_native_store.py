"""Reads of a store of raw records as records of our states."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests.native_state.store.reversed_layout import (
    PARTITION,
    ReversedLayout,
    raw,
    store_key,
    value,
    wire_key,
)

from queryable_state.server.native_state.store.batch_times import BatchTimes
from queryable_state.server.native_state.store.changes import described
from queryable_state.server.native_state.store.native_store import NativeStore
from queryable_state.server.storage.heap.store import HeapStateStore
from queryable_state.server.storage.overlay import Overlay, StateOverlay
from queryable_state.wire.errors import (
    InvalidRequestError,
    RetryLaterError,
    SupersededError,
    UnknownStateError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

STATE = 7
WORDS = {"ab": "1", "ba": "2", "c": "3"}


def raw_store(words: Mapping[str, str], batch: int = 0) -> HeapStateStore:
    """A store of raw records as of a batch."""
    store = HeapStateStore(batch - 1)
    store.add_state(0)
    store.load(batch, changes(words))
    return store


def changes(words: Mapping[str, str | None]) -> Overlay:
    """The raw changes of a batch; None deletes."""
    records = {raw(key): None if text is None else text.encode() for key, text in words.items()}
    return Overlay({0: StateOverlay(records)}, 10 * len(records), len(records))


@pytest.fixture
def store() -> NativeStore:
    """A store of `WORDS` at batch 0."""
    return NativeStore(raw_store(WORDS), {STATE: ReversedLayout()}, PARTITION, BatchTimes())


def commit(store: NativeStore, batch: int, words: Mapping[str, str | None]) -> Overlay | None:
    """Commits the raw changes of a batch, described."""
    overlay = changes(words)
    store.seal(batch, overlay, (0, batch))
    store.describe(described(store, overlay, [STATE]))
    return store.commit(batch)


def scanned(
    store: NativeStore,
    start: bytes = b"",
    end: bytes | None = None,
    after: bytes = b"",
    version: int | None = None,
) -> list[tuple[bytes, bytes]]:
    with store.view(version) as view:
        return list(view.scan(STATE, start, end, after))


def test_reads_are_translated(store: NativeStore) -> None:
    assert store.get(STATE, store_key("ab")) == value("1")
    assert store.reader(STATE)(store_key("zz")) is None
    assert store.prefix(STATE, wire_key("ba")) == [(store_key("ba"), value("2"))]
    with store.view() as view:
        assert view.multi_get(STATE, [store_key("c"), store_key("d")]) == [value("3"), None]
        assert view.version == 0
    with pytest.raises(UnknownStateError):
        store.get(8, store_key("ab"))


def test_a_scan_is_in_raw_order_and_goes_on_behind_any_key(store: NativeStore) -> None:
    whole = scanned(store)
    assert [key for key, _ in whole] == [store_key("ba"), store_key("ab"), store_key("c")]
    for position, (key, _) in enumerate(whole):
        assert scanned(store, after=key.removesuffix(b"\0")) == whole[position + 1 :]


def test_bounds_of_keys_hold_in_raw_order(store: NativeStore) -> None:
    group = PARTITION.to_bytes(2)
    assert scanned(store, group + b"b") == [
        (store_key("ba"), value("2")),
        (store_key("c"), value("3")),
    ]
    assert [key for key, _ in scanned(store, group, group + b"b")] == [store_key("ab")]
    assert scanned(store, b"", group) == []
    assert scanned(store, (PARTITION + 1).to_bytes(2), None) == []


def test_a_commit_tells_what_became_of_our_records(store: NativeStore) -> None:
    visible = commit(store, 1, {"ab": "5", "c": None, "new": "6"})
    assert visible is not None
    assert visible.states[STATE].records == {
        store_key("ab"): value("5"),
        store_key("c"): None,
        store_key("new"): value("6"),
    }
    assert store.get(STATE, store_key("ab")) == value("5")
    assert store.get(STATE, store_key("c")) is None


def test_older_versions_stay_readable_until_they_are_compacted(store: NativeStore) -> None:
    commit(store, 1, {"ab": "5"})
    assert scanned(store, version=0) == scanned(
        NativeStore(raw_store(WORDS), store.layouts, PARTITION, BatchTimes())
    )
    with store.view(0) as pinned:
        assert not store.compact(1, 1000)
        assert pinned.get(STATE, store_key("ab")) == value("1")
    with pytest.raises(SupersededError):
        store.view(0)


def test_a_newer_snapshot_replaces_the_raw_records(store: NativeStore) -> None:
    commit(store, 1, {"ab": "5"})
    store.replace(4, raw_store({"ab": "9"}, batch=4))
    assert store.get(STATE, store_key("ab")) == value("5")
    assert store.staged_version == 4
    assert store.commit(4) is None
    assert store.get(STATE, store_key("ab")) == value("9")
    assert store.committed_version == 4
    # Spark wrote nothing from which the batches between could be known.
    for version, kept in ((0, True), (1, True), (2, False), (3, False), (4, True)):
        if kept:
            store.view(version).close()
        else:
            with pytest.raises(SupersededError):
                store.view(version)
    with pytest.raises(RetryLaterError):
        store.view(5)


def test_replaced_stores_are_closed_once_enough_newer_ones_are_there(store: NativeStore) -> None:
    first = store.raw
    for batch in range(1, 6):
        store.replace(batch, raw_store({}, batch=batch))
        store.commit(batch)
    assert store.take_retired() == [first]
    assert store.take_retired() == []
    assert store.base_version == 1


def test_a_batch_that_fails_leaves_the_one_before(store: NativeStore) -> None:
    store.seal(1, changes({"ab": "5"}), (0, 1))
    store.discard_staged()
    replacement = raw_store({}, batch=1)
    store.replace(1, replacement)
    store.discard_staged()
    assert store.take_retired() == [replacement]
    assert store.staged_version is None
    assert store.get(STATE, store_key("ab")) == value("1")
    assert store.committed_version == 0


def test_values_expire_as_of_the_batch_that_is_read() -> None:
    times = BatchTimes()
    for batch in range(3000):
        times.add(batch, 10 * batch)
    assert (times.at(2999), times.at(5000), times.at(2500)) == (29_990, 29_990, 25_000)
    assert times.at(0) == 0


def test_what_only_tasks_do_is_refused(store: NativeStore) -> None:
    for call in (
        lambda: store.add_state(9),
        store.bulk_load,
        lambda: store.snapshot(0),
        lambda: store.operator_state(STATE),
        lambda: store.next_timers(STATE),
    ):
        with pytest.raises(InvalidRequestError, match="Spark's own state is served"):
            call()


def test_peers_are_read_for_keys_and_not_for_scans() -> None:
    peers: list[NativeStore] = []
    for words in ({"ab": "1"}, {"ba": "2"}):
        raws = raw_store(words)
        peers.append(NativeStore(raws, {STATE: ReversedLayout()}, PARTITION, BatchTimes(), peers))
    for each in peers:
        assert each.get(STATE, store_key("ab")) == value("1")
        assert each.reader(STATE)(store_key("ba")) == value("2")
        assert each.reader(STATE)(store_key("c")) is None
        assert each.prefix(STATE, wire_key("ba")) == [(store_key("ba"), value("2"))]
        assert len(scanned(each)) == 1
    for each in peers:
        commit(each, 1, {"ab": None, "ba": "3"} if each is peers[1] else {"ab": None})
    for each in peers:
        assert each.get(STATE, store_key("ab")) is None
        assert each.get(STATE, store_key("ba")) == value("3")
        with each.view(0) as older:
            assert older.multi_get(STATE, [store_key("ab"), store_key("ba")]) == [
                value("1"),
                value("2"),
            ]
            assert older.prefix(STATE, wire_key("ba")) == [(store_key("ba"), value("2"))]
            assert older.get(STATE, store_key("c")) is None
        with pytest.raises(UnknownStateError):
            each.reader(8)
    commit(peers[0], 2, {"ba": "4"})
    commit(peers[1], 2, {})
    for each in peers:
        reads: tuple[Callable[[], object], ...] = (
            partial(each.get, STATE, store_key("ba")),
            partial(each.prefix, STATE, wire_key("ba")),
            partial(each.view(2).get, STATE, store_key("ba")),
        )
        for read in reads:
            with pytest.raises(InvalidRequestError, match="each with a value of its own"):
                read()
