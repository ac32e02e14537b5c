"""Snapshots: each one keeps its committed version while the store changes."""

from __future__ import annotations

import tracemalloc
from threading import Event, Thread
from typing import TYPE_CHECKING

import pytest
from tests.storage.stored import new_store

from queryable_state.internal.v1.checkpoint_pb2 import SnapshotFormat
from queryable_state.server.storage.heap.store import HeapStateStore
from queryable_state.wire.errors import (
    InternalError,
    Reason,
    RetryLaterError,
    SupersededError,
    UnknownStateError,
)

if TYPE_CHECKING:
    from pathlib import Path

    from tests.storage.conftest import Advance, MakeOverlay

    from queryable_state.server.storage.store import StateStore

STATE = 7
EVERYTHING = 10_000_000


def numbered(count: int, value: bytes) -> dict[bytes, bytes]:
    return {b"\x00\x01%06d" % number: value for number in range(count)}


def compact_all(store: StateStore) -> None:
    while store.compact(store.committed_version, EVERYTHING):
        pass


def test_a_snapshot_keeps_its_version_while_later_ones_commit_and_compact(
    store: StateStore, advance: Advance, tmp_path: Path
) -> None:
    advance(store, numbered(2000, b"0"))
    compact_all(store)
    advance(store, {b"\x00\x02": b"1"}, deletes=[b"\x00\x01000007"])
    pinned = store.snapshot(1)
    compact_all(store)
    native = store.snapshot(1, tmp_path / "snapshot")
    advance(store, numbered(2500, b"2"), clears=[b"\x00\x02"])
    compact_all(store)
    expected = numbered(2000, b"0") | {b"\x00\x02": b"1"}
    del expected[b"\x00\x01000007"]
    for snapshot in (pinned, native):
        with snapshot:
            assert snapshot.version == 1
            assert dict(snapshot.records(STATE)) == expected
    assert store.get(STATE, b"\x00\x02") is None


def test_a_snapshot_knows_its_states_and_about_how_large_they_are(
    store: StateStore, advance: Advance, tmp_path: Path
) -> None:
    store.add_state(3)
    advance(store, numbered(1000, b"0123456789"))
    compact_all(store)
    for snapshot in (store.snapshot(0), store.snapshot(0, tmp_path / "snapshot")):
        with snapshot:
            assert snapshot.state_ids() == [3, STATE]
            empty, full = snapshot.sizes()
            assert (empty.state_id, empty.records) == (3, 0)
            assert (full.state_id, full.records) == (STATE, 1000)
            assert full.size_bytes > 0


def test_only_committed_versions_that_are_not_compacted_have_snapshots(
    store: StateStore, advance: Advance, overlay: MakeOverlay, tmp_path: Path
) -> None:
    advance(store, {b"\x00\x01": b"0"})
    advance(store, {b"\x00\x01": b"1"})
    store.seal(2, overlay({b"\x00\x01": b"2"}), (1, 2))
    with pytest.raises(RetryLaterError, match="before it is committed") as refused:
        store.snapshot(2)
    assert refused.value.reason == Reason.BEHIND
    compact_all(store)
    with pytest.raises(SupersededError, match="is compacted"):
        store.snapshot(0)
    with pytest.raises(SupersededError, match="is compacted"):
        store.snapshot(0, tmp_path / "snapshot")


def test_a_native_snapshot_needs_every_version_compacted(
    advance: Advance, overlay: MakeOverlay, tmp_path: Path
) -> None:
    with new_store("rocksdb", tmp_path / "store", [STATE]) as store:
        advance(store, numbered(1000, b"0"))
        with pytest.raises(RetryLaterError, match="not compacted"):
            store.snapshot(0, tmp_path / "snapshot")
        assert store.compact(0, 300)
        with pytest.raises(RetryLaterError, match="not compacted"):
            store.snapshot(0, tmp_path / "snapshot")
        compact_all(store)
        store.snapshot(0, tmp_path / "snapshot").close()
        store.commit(3)
        with pytest.raises(RetryLaterError, match="not compacted"):
            store.snapshot(3, tmp_path / "later")
        store.compact(3, 1)
        store.snapshot(3, tmp_path / "later").close()


def test_a_native_snapshot_holds_links_to_tables_and_its_own_small_files(
    advance: Advance, tmp_path: Path
) -> None:
    with new_store("rocksdb", tmp_path / "store", [STATE]) as store:
        advance(store, numbered(1000, b"0"))
        compact_all(store)
        first = store.snapshot(0, tmp_path / "first")
        advance(store, {b"\x00\x02": b"1"})
        compact_all(store)
        second = store.snapshot(1, tmp_path / "second")
    assert first.format == second.format == SnapshotFormat.ROCKSDB
    tables = {file.name: file.path.stat().st_ino for file in first.files() if file.shared}
    again = {file.name: file.path.stat().st_ino for file in second.files() if file.shared}
    assert tables.items() < again.items(), "what did not change is the same file"
    assert all(file.name.endswith(".sst") == file.shared for file in second.files())
    small = {file.name for file in second.files() if not file.shared}
    assert {"CURRENT"} < small
    assert sum((tmp_path / "second" / name).stat().st_size for name in small) < 4096


def test_flushing_beside_fetches_and_compactions_changes_nothing(
    store: StateStore, advance: Advance
) -> None:
    keys = list(numbered(5000, b""))
    advance(store, dict.fromkeys(keys, b"0"))
    failures: list[Exception] = []
    done = Event()

    def flush() -> None:
        try:
            while not done.is_set():
                store.flush()
        except Exception as error:  # noqa: BLE001 - the test looks at whatever came
            failures.append(error)

    thread = Thread(target=flush)
    thread.start()
    for value in (b"1", b"2", b"3"):
        advance(store, dict.fromkeys(keys, value))
        while store.compact(store.committed_version, 500):
            assert store.get(STATE, keys[0]) == value
        with store.view() as view:
            assert set(view.multi_get(STATE, keys)) == {value}
    done.set()
    thread.join()
    assert failures == []


def test_closing_waits_for_a_flush(store: StateStore, advance: Advance) -> None:
    advance(store, numbered(5000, b"0"))
    compact_all(store)
    failures: list[Exception] = []
    flushed = Event()

    def flush() -> None:
        try:
            while True:
                store.flush()
                flushed.set()
        except Exception as error:  # noqa: BLE001 - the test looks at whatever came
            failures.append(error)

    thread = Thread(target=flush)
    thread.start()
    assert flushed.wait(10)
    store.close()
    thread.join()
    [failure] = failures
    assert isinstance(failure, RetryLaterError)


def test_a_native_snapshot_outlives_its_store(advance: Advance, tmp_path: Path) -> None:
    with new_store("rocksdb", tmp_path / "store", [STATE]) as store:
        advance(store, {b"\x00\x01": b"1"})
        compact_all(store)
        snapshot = store.snapshot(0, tmp_path / "snapshot")
    store.destroy()
    assert list(snapshot.records(STATE)) == [(b"\x00\x01", b"1")]
    snapshot.close()
    assert (tmp_path / "snapshot").is_dir(), "the files are the caller's"


def test_a_native_snapshot_into_a_directory_that_is_there_is_refused(
    advance: Advance, tmp_path: Path
) -> None:
    (tmp_path / "snapshot").mkdir()
    (tmp_path / "snapshot" / "precious").touch()
    with new_store("rocksdb", tmp_path / "store", [STATE]) as store:
        advance(store, {b"\x00\x01": b"1"})
        compact_all(store)
        with pytest.raises(InternalError, match="could not write a snapshot of version 0"):
            store.snapshot(0, tmp_path / "snapshot")
        assert (tmp_path / "snapshot" / "precious").exists()
        assert store.get(STATE, b"\x00\x01") == b"1"


def test_closing_the_store_ends_its_canonical_snapshots(
    store: StateStore, advance: Advance
) -> None:
    advance(store, numbered(2000, b"0"))
    snapshot = store.snapshot(0)
    reading = snapshot.records(STATE)
    next(reading)
    store.close()
    with pytest.raises(RetryLaterError, match="closed"):
        list(reading)
    snapshot.close()
    snapshot.close()


def test_a_state_that_was_not_added_cannot_be_read_from_a_snapshot(store: StateStore) -> None:
    with store.snapshot(-1) as snapshot, pytest.raises(UnknownStateError):
        list(snapshot.records(8))


def test_a_snapshot_of_the_heap_copies_nothing(advance: Advance) -> None:
    with HeapStateStore() as store:
        store.add_state(STATE)
        advance(store, numbered(100_000, b"0" * 50))
        compact_all(store)
        tracemalloc.start()
        try:
            with store.snapshot(0) as snapshot:
                for _ in snapshot.records(STATE):
                    pass
                _, peak_bytes = tracemalloc.get_traced_memory()
                advance(store, numbered(100, b"1"))
                compact_all(store)
                assert dict(snapshot.records(STATE)) == numbered(100_000, b"0" * 50)
        finally:
            tracemalloc.stop()
    assert peak_bytes < 500_000


def test_a_snapshot_is_read_on_another_thread_beside_fetches_commits_and_compactions(
    store: StateStore, advance: Advance
) -> None:
    keys = list(numbered(20_000, b""))
    advance(store, dict.fromkeys(keys, b"0"))
    compact_all(store)
    snapshot = store.snapshot(0)
    done = Event()
    found: list[object] = []

    def read() -> None:
        try:
            found.append({value for _, value in snapshot.records(STATE)})
        except BaseException as error:  # noqa: BLE001 - the test looks at whatever came
            found.append(error)
        finally:
            done.set()

    thread = Thread(target=read)
    thread.start()
    rounds = 0
    while not done.is_set() or rounds < 3:
        rounds += 1
        version = advance(store, dict.fromkeys(keys[:: rounds + 1], b"%d" % rounds))
        with store.view(version) as view:
            assert view.multi_get(STATE, keys[:1]) == [b"%d" % rounds]
        compact_all(store)
    thread.join()
    assert found == [{b"0"}]
    snapshot.close()
