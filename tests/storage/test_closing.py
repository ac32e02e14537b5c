"""Closing lets go of everything; what is left on disk is nobody's copy."""

from __future__ import annotations

import gc
import shutil
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from queryable_state.server.storage.rocksdb.files import read_rocksdb_files
from queryable_state.server.storage.rocksdb.store import RocksDBStateStore
from queryable_state.wire.errors import (
    CorruptDataError,
    InternalError,
    InvalidRequestError,
    RetryLaterError,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.storage.conftest import Advance, MakeOverlay, OpenStore

    from queryable_state.server.storage.store import StateStore

STATE = 7
EVERYTHING = 10_000


def test_every_call_of_a_closed_store_gets_one_answer(
    store: StateStore, overlay: MakeOverlay, advance: Advance
) -> None:
    advance(store, {b"a": b"1"})
    view = store.view()
    store.close()
    store.close()
    calls: list[Callable[[], object]] = [
        lambda: store.get(STATE, b"a"),
        lambda: store.prefix(STATE, b"a"),
        lambda: store.reader(STATE),
        lambda: store.view(),
        lambda: store.compact(0, 1),
        lambda: store.seal(1, overlay(), (1, 1)),
        lambda: store.commit(1),
        lambda: store.add_state(9),
        lambda: store.approximate_size(STATE),
        lambda: view.get(STATE, b"a"),
        lambda: view.multi_get(STATE, [b"a"]),
        lambda: list(view.scan(STATE, b"", None)),
    ]
    for call in calls:
        with pytest.raises(RetryLaterError, match="closed"):
            call()


def test_a_reopened_store_is_empty(open_store: OpenStore, advance: Advance) -> None:
    """What is durable is the checkpoint's business, not the store's."""
    store = open_store()
    advance(store, {b"a": b"1"})
    store.compact(0, EVERYTHING)
    store.close()
    again = open_store(4)
    assert again.committed_version == 4
    assert again.get(STATE, b"a") is None
    assert again.prefix(STATE, b"") == []


def test_closing_with_everything_still_in_hand_frees_the_store(
    open_store: OpenStore, advance: Advance
) -> None:
    """Open views, a scan half-way, a compaction half-way and a reader must not keep the lock."""
    store = open_store()
    advance(store, {b"%04d" % number: b"0" for number in range(1000)})
    store.compact(0, EVERYTHING)
    view = store.view()
    scan = view.scan(STATE, b"", None)
    next(scan)
    advance(store, {b"%04d" % number: b"1" for number in range(1000)})
    store.compact(1, 100)
    next(scan)
    assert view.get(STATE, b"0000") == b"0"
    read = store.reader(STATE)
    store.close()
    again = open_store()
    advance(again, {b"0000": b"new"})
    assert again.get(STATE, b"0000") == b"new"
    with pytest.raises(RetryLaterError, match="closed"):
        list(scan)
    assert view.version == 0
    assert callable(read)


def test_closing_waits_for_the_bulk_read_under_way(store: StateStore, advance: Advance) -> None:
    keys = [b"%05d" % number for number in range(20_000)]
    advance(store, dict.fromkeys(keys, b"v"))
    while store.compact(0, EVERYTHING):
        pass
    view = store.view()
    outcomes: list[object] = []

    def read_until_closed() -> None:
        try:
            while True:
                outcomes[:] = [set(view.multi_get(STATE, keys))]
        except Exception as error:  # noqa: BLE001 - the test looks at whatever came
            outcomes.append(error)

    thread = Thread(target=read_until_closed)
    thread.start()
    while not outcomes:
        thread.join(0.001)
    store.close()
    thread.join()
    complete, end = outcomes
    assert complete == {b"v"}
    assert isinstance(end, RetryLaterError)


def test_destroying_removes_the_directory(tmp_path: Path) -> None:
    store = RocksDBStateStore(tmp_path / "store")
    store.add_state(STATE)
    store.destroy()
    store.destroy()
    assert not (tmp_path / "store").exists()


def test_a_directory_of_an_open_store_is_refused(tmp_path: Path) -> None:
    with (
        RocksDBStateStore(tmp_path / "store"),
        pytest.raises(InvalidRequestError, match="a store that is open"),
    ):
        RocksDBStateStore(tmp_path / "store")


def test_a_directory_with_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "precious.txt").write_text("keep")
    with pytest.raises(InvalidRequestError, match="not a store's"):
        RocksDBStateStore(tmp_path)
    with pytest.raises(InvalidRequestError, match="not a directory"):
        RocksDBStateStore(tmp_path / "precious.txt")
    assert (tmp_path / "precious.txt").read_text() == "keep"


def test_a_database_that_cannot_be_opened_is_reported_and_can_be_opened_later(
    tmp_path: Path,
) -> None:
    RocksDBStateStore(tmp_path / "store").close()
    database = tmp_path / "store" / "db"
    shutil.rmtree(database)
    database.symlink_to(tmp_path / "missing" / "deep")
    with pytest.raises(InternalError, match="could not open"):
        RocksDBStateStore(tmp_path / "store")
    database.unlink()
    RocksDBStateStore(tmp_path / "store").close()


def test_opening_and_closing_leaks_no_file_descriptor(
    open_store: OpenStore, advance: Advance
) -> None:
    def cycle() -> None:
        store = open_store()
        advance(store, {b"a": b"1"})
        with store.view():
            advance(store, {b"a": b"2"})
            store.compact(1, EVERYTHING)
        store.close()

    def open_files() -> int:
        gc.collect()
        return len(list(Path("/proc/self/fd").iterdir()))

    cycle()
    before = open_files()
    for _ in range(5):
        cycle()
    assert open_files() <= before


def test_taking_snapshots_reading_and_restoring_leaks_no_file_descriptor_and_no_lock(
    advance: Advance, tmp_path: Path
) -> None:
    """Snapshots half read, loads that failed and readers left half-way among them."""

    def cycle(folder: Path) -> None:
        folder.mkdir()
        with RocksDBStateStore(folder / "store") as store:
            store.add_state(STATE)
            advance(store, {b"\x00\x01%06d" % number: b"1" for number in range(5000)})
            while store.compact(0, EVERYTHING):
                pass
            native, pinned = store.snapshot(0, folder / "snapshot"), store.snapshot(0)
            next(native.records(STATE))
            next(pinned.records(STATE))
        files = {file.name: file.path for file in native.files()}
        reading = read_rocksdb_files(files, folder / "scratch", 0, 9)
        next(reading)
        with RocksDBStateStore.from_files(folder / "again", None, files, 0) as again:
            assert again.get(STATE, b"\x00\x01000042") == b"1"
            with pytest.raises(CorruptDataError), again.bulk_load() as load:
                load.put(STATE, [(b"\x00\x02", b"2"), (b"\x00\x01", b"1")])
        with RocksDBStateStore.from_files(folder / "again", None, files, 0):
            pass
        with pytest.raises(CorruptDataError):
            RocksDBStateStore.from_files(folder / "half", None, {"CURRENT": files["CURRENT"]}, 0)
        RocksDBStateStore(folder / "half").close()
        reading.close()  # type: ignore[attr-defined] # a generator
        assert list((folder / "scratch").iterdir()) == []
        store.destroy()
        shutil.rmtree(folder)

    def open_files() -> set[str]:
        gc.collect()
        names = set()
        for path in list(Path("/proc/self/fd").iterdir()):
            with suppress(FileNotFoundError):
                names.add(str(path.readlink()))
        return names

    for number in range(3):
        cycle(tmp_path / str(number))
    assert not [name for name in open_files() if name.startswith(str(tmp_path))]
