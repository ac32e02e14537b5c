"""The time-ordered index of a store: what it costs, and that it follows the records."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

import pytest
from tests.storage.model import TIMERS, Batch
from tests.storage.stored import (
    ALL_GROUPS,
    BACKENDS,
    new_store,
    restore_groups,
    restore_whole,
    store_snapshot,
)

from queryable_state.server.storage.layered import layer_stack
from queryable_state.server.storage.rocksdb.time_index import RocksDBTimeIndex
from queryable_state.server.storage.time_index import NextTimers
from queryable_state.wire.errors import UnknownStateError
from queryable_state.wire.keys.timer_keys import Clock, index_key_of, timer_element

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from queryable_state.server.storage.store import StateStore

END_OF_TIME = (1 << 63) - 1


def timer(number: int, time_ms: int, clock: Clock = Clock.EVENT_TIME) -> bytes:
    """The store key of a timer of one of many keys in 16 key groups."""
    return (number % 16).to_bytes(2) + number.to_bytes(4) + b"\x00" + timer_element(clock, time_ms)


def run(
    store: StateStore,
    *,
    clears: Iterable[bytes] = (),
    deletes: Iterable[bytes] = (),
    puts: Iterable[bytes] = (),
) -> None:
    """Seals and commits a batch on timers, as a state server does."""
    version = store.committed_version + 1
    overlay = Batch([(TIMERS, [*clears], [*deletes], dict.fromkeys(puts, b""))]).overlay()
    store.next_timers(TIMERS, overlay)
    store.seal(version, overlay, (1, version))
    store.commit(version)


def compact(store: StateStore) -> None:
    while store.compact(store.committed_version, 1000):
        pass


def due(store: StateStore, event_time_ms: int = END_OF_TIME) -> list[bytes]:
    with store.view() as view:
        return list(view.due(TIMERS, END_OF_TIME, event_time_ms))


def in_order(*keys: bytes) -> list[bytes]:
    return sorted(map(index_key_of, keys))


@pytest.mark.parametrize("backend", BACKENDS)
def test_processing_time_fires_before_event_time_and_then_by_time_and_key(
    backend: str, tmp_path: Path
) -> None:
    with new_store(backend, tmp_path / "store", [TIMERS]) as store:
        late = timer(1, 9, Clock.PROCESSING_TIME)
        run(store, puts=[timer(3, 5), timer(2, 5), timer(9, -4), late])
        assert due(store) == list(map(index_key_of, [late, timer(9, -4), timer(2, 5), timer(3, 5)]))
        assert store.next_timers(TIMERS) == NextTimers(9, -4)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_cleared_key_has_no_timers(backend: str, tmp_path: Path) -> None:
    with new_store(backend, tmp_path / "store", [TIMERS]) as store:
        run(store, puts=[timer(1, 5), timer(1, 7), timer(2, 6)])
        compact(store)
        run(store, clears=[timer(1, 0)[:7]])
        assert due(store) == in_order(timer(2, 6))
        compact(store)
        assert due(store) == in_order(timer(2, 6))
        assert store.next_timers(TIMERS) == NextTimers(None, 6)


@pytest.mark.parametrize("backend", BACKENDS)
def test_clean_up_removes_timers_with_their_records(backend: str, tmp_path: Path) -> None:
    with new_store(backend, tmp_path / "store", [TIMERS]) as store:
        run(store, puts=[timer(number, number) for number in range(4)])
        compact(store)
        with store.view() as before:
            store.clean_up(TIMERS, b"", 2, lambda value: value == b"")
            assert len(list(before.due(TIMERS, 0, END_OF_TIME))) == 4
        assert due(store) == in_order(timer(2, 2), timer(3, 3))
        assert store.next_timers(TIMERS) == NextTimers(None, 2)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_state_with_records_becomes_one_of_timers(backend: str, tmp_path: Path) -> None:
    """A replayed changelog adds its states before anything tells their kind."""
    with new_store(backend, tmp_path / "store", []) as store:
        store.add_state(TIMERS)
        overlay = Batch([(TIMERS, [], [], {timer(1, 5): b"", timer(2, 4): b""})]).overlay()
        store.load(3, overlay)
        with pytest.raises(UnknownStateError, match="no timers of state 5"):
            due(store)
        with pytest.raises(UnknownStateError, match="no timers of state 5"):
            store.next_timers(TIMERS)
        store.add_state(TIMERS, timers=True)
        assert due(store) == in_order(timer(1, 5), timer(2, 4))


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
def test_snapshots_hold_records_and_stores_loaded_from_them_have_the_index(
    backend: str, native: bool, tmp_path: Path
) -> None:
    timers = [timer(number, 1000 - number) for number in range(100)]
    with new_store(backend, tmp_path / "store", [1, TIMERS]) as store:
        run(store, puts=timers)
        compact(store)
        with store.snapshot(0, tmp_path / "native" if native else None) as made:
            assert made.state_ids() == [1, TIMERS]
            assert [key for key, _ in made.records(TIMERS)] == sorted(timers)
            stored = store_snapshot(made, tmp_path / "written")
    for number, loaded in enumerate(BACKENDS):
        path = tmp_path / f"loaded-{number}" / "store"
        with restore_whole(loaded, path, stored, [1, TIMERS]) as again:
            assert due(again) == in_order(*timers)
            assert again.next_timers(TIMERS) == NextTimers(None, 901)
        path = tmp_path / f"part-{number}" / "store"
        with restore_groups(loaded, path, [stored], [1, TIMERS], 4, 7) as part:
            mine = [key for key in timers if 4 <= int.from_bytes(key[:2]) <= 7]
            assert due(part) == in_order(*mine)


@pytest.mark.parametrize("backend", BACKENDS)
def test_two_loads_of_other_key_groups_make_one_index(backend: str, tmp_path: Path) -> None:
    timers = [timer(number, number) for number in range(64)]
    with new_store("heap", tmp_path / "store", [TIMERS]) as store:
        run(store, puts=timers)
        with store.snapshot(0) as made:
            stored = store_snapshot(made, tmp_path / "written")
    path = tmp_path / "both" / "store"
    with restore_groups(backend, path, [stored], [TIMERS], *ALL_GROUPS) as both:
        assert due(both) == in_order(*timers)


def test_fired_timers_cost_the_next_begin_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither their deletes in an overlay nor their tombstones in RocksDB are passed again."""
    fired = [timer(number, number) for number in range(3000)]
    with new_store("rocksdb", tmp_path / "store", [TIMERS]) as store:
        run(store, puts=[*fired, timer(1, 5000)])
        compact(store)
        run(store, deletes=fired)
        read: list[bytes] = []
        whole_chunk = RocksDBTimeIndex.chunk

        def counted(
            index: RocksDBTimeIndex, start: bytes, end: bytes | None, limit: int
        ) -> list[tuple[bytes, bytes]]:
            found = whole_chunk(index, start, end, limit)
            read.extend(key for key, _ in found)
            return found

        monkeypatch.setattr(RocksDBTimeIndex, "chunk", counted)
        assert due(store, 4999) == []
        assert read == []
        compact(store)
        read.clear()
        assert due(store, 4999) == []
        assert due(store, 5000) == in_order(timer(1, 5000))
        assert read == in_order(timer(1, 5000))


def test_the_first_timer_of_an_overlay_is_found_in_growing_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[object] = []
    whole_chunk = layer_stack.chunk

    def noted(*args: object) -> object:
        steps.append(args[-1])
        return whole_chunk(*args)  # type: ignore[arg-type]

    with new_store("heap", tmp_path, [TIMERS]) as store:
        fired = [timer(number, number) for number in range(1000)]
        run(store, puts=[*fired, timer(1, 5000)])
        monkeypatch.setattr(layer_stack, "chunk", noted)
        run(store, deletes=fired)
        assert steps == [16, 64, 256, 1024]
        assert store.next_timers(TIMERS) == NextTimers(None, 5000)


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_reader_may_stop_and_go_on_after_the_last_timer_of_a_page(
    backend: str, tmp_path: Path
) -> None:
    with new_store(backend, tmp_path / "store", [TIMERS]) as store:
        timers = [timer(number, number // 3, Clock(number % 2)) for number in range(1500)]
        run(store, puts=timers[::2])
        compact(store)
        run(store, puts=timers[1::2])
        with store.view() as view:
            found: list[bytes] = []
            while page := list(
                islice(view.due(TIMERS, END_OF_TIME, 400, found[-1] if found else b""), 100)
            ):
                found += page
        assert found == in_order(
            *(key for key in timers if key[-9:] < timer_element(Clock.EVENT_TIME, 401))
        )
