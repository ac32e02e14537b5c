"""Compaction: small steps that change no answer."""

from __future__ import annotations

from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest

from queryable_state.server.storage.heap.store import HeapBase
from queryable_state.server.storage.layered.store import LayeredStore
from queryable_state.server.storage.overlay import Overlay, StateOverlay

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.storage.conftest import Advance, MakeOverlay

    from queryable_state.server.storage.base import BaseImage
    from queryable_state.server.storage.store import StateStore

STATE = 7
EVERYTHING = 100_000


def test_a_compaction_stops_at_the_version_it_was_given(
    store: StateStore, advance: Advance
) -> None:
    for value in (b"0", b"1", b"2"):
        advance(store, {b"k": value})
    assert not store.compact(1, EVERYTHING)
    assert store.base_version == 1
    with store.view(1) as view:
        assert view.get(STATE, b"k") == b"1"
    assert store.get(STATE, b"k") == b"2"


def test_a_compaction_never_passes_the_committed_version(
    store: StateStore, overlay: MakeOverlay, advance: Advance
) -> None:
    advance(store, {b"k": b"0"})
    store.seal(1, overlay({b"k": b"1"}), (1, 1))
    assert not store.compact(99, EVERYTHING)
    assert store.base_version == 0
    assert store.get(STATE, b"k") == b"0"
    assert store.get(STATE, b"k", uncommitted=True) == b"1"


def test_a_compaction_moves_over_versions_without_changes(
    store: StateStore, advance: Advance
) -> None:
    advance(store, {b"k": b"0"})
    store.commit(5)
    assert not store.compact(3, EVERYTHING)
    assert store.base_version == 3


def test_a_compaction_takes_about_as_many_records_as_requested(
    store: StateStore, advance: Advance
) -> None:
    advance(store, {b"%05d" % number: b"v" for number in range(5000)})
    steps = 1
    while store.compact(0, 500):
        steps += 1
        assert store.get(STATE, b"04999") == b"v"
    assert 5 <= steps <= 10
    assert store.overlay_bytes == 0


def test_compacted_versions_read_as_before(store: StateStore, advance: Advance) -> None:
    advance(store, {b"a": b"0", b"b": b"0", b"pa": b"0", b"pb": b"0"})
    advance(store, {b"pc": b"1"}, deletes=[b"a"], clears=[b"p"])
    before = store.prefix(STATE, b"")
    while store.compact(1, 1):
        assert store.prefix(STATE, b"") == before
    assert store.prefix(STATE, b"") == before == [(b"b", b"0"), (b"pc", b"1")]
    assert store.approximate_size(STATE)[0] >= 2


def test_sizes_follow_compaction(store: StateStore, advance: Advance) -> None:
    """RocksDB estimates; both must see growth."""
    assert store.approximate_size(STATE)[0] == 0
    advance(store, {b"%05d" % number: b"v" * 100 for number in range(1000)})
    store.compact(0, EVERYTHING)
    records, size_bytes = store.approximate_size(STATE)
    assert records == 1000
    assert size_bytes >= 100_000


@pytest.mark.parametrize("records", [10, 5000])
def test_sizes_count_each_record_that_is_not_compacted_once(
    store: StateStore, advance: Advance, records: int
) -> None:
    """Exactly where it is little, else by a sample."""
    keys = [b"%05d" % number for number in range(records)]
    advance(store, dict.fromkeys(keys, b"v" * 100))
    found, size_bytes = store.approximate_size(STATE)
    assert found == records
    assert records * 105 <= size_bytes <= records * 110 + 4096
    advance(store, dict.fromkeys(keys, b"w" * 100))
    found, size_bytes = store.approximate_size(STATE)
    assert found == records
    assert records * 105 <= size_bytes <= records * 110 + 4096
    store.compact(0, EVERYTHING)
    assert store.approximate_size(STATE)[0] == records
    advance(store, {}, deletes=keys)
    assert store.approximate_size(STATE)[0] == 0
    store.compact(2, EVERYTHING)
    assert store.approximate_size(STATE)[0] <= records


def test_readers_beside_a_compacting_thread_never_see_half_a_version(
    store: StateStore, overlay: MakeOverlay
) -> None:
    """Every version writes its number to all keys, or clears and rewrites them."""
    keys = [b"%04d" % number for number in range(400)]
    stop = Event()

    def compact() -> None:
        while not stop.is_set():
            store.compact(store.committed_version, 64)

    thread = Thread(target=compact)
    thread.start()
    try:
        for version in range(60):
            value = b"%d" % version
            clears = [b"0"] if version % 3 == 2 else []
            store.seal(version, overlay(dict.fromkeys(keys, value), clears=clears), (1, version))
            store.commit(version)
            read = store.reader(STATE)
            assert {read(key) for key in keys} == {value}
            records = store.prefix(STATE, b"0")
            assert [key for key, _ in records] == keys
            assert {found for _, found in records} == {value}
    finally:
        stop.set()
        thread.join()


class _FullOnceBase(HeapBase):
    """A base whose second write fails once, as a full disk does."""

    def __init__(self) -> None:
        super().__init__()
        self.writes_until_failure = 2

    def apply(
        self, state_id: int, changes: Mapping[bytes, bytes | None], image: BaseImage | None
    ) -> None:
        self.writes_until_failure -= 1
        if self.writes_until_failure == 0:
            raise OSError("no space left on device")
        super().apply(state_id, changes, image)


def test_a_compaction_that_failed_is_repeated_and_harms_no_view() -> None:
    with LayeredStore(_FullOnceBase()) as store:
        store.add_state(STATE)
        before = store.view()
        records = {b"%04d" % number: b"v" for number in range(1000)}
        store.seal(0, Overlay({STATE: StateOverlay(records, [b"00"])}, 0, 0), (1, 1))
        store.commit(0)
        with pytest.raises(OSError, match="no space"):
            store.compact(0, EVERYTHING)
        assert store.prefix(STATE, b"") == sorted(records.items())
        assert before.prefix(STATE, b"") == []
        assert not store.compact(0, EVERYTHING)
        assert store.prefix(STATE, b"") == sorted(records.items())
        assert before.prefix(STATE, b"") == []
