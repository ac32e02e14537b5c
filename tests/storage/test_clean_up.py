"""Clean-up of gone values, which no reader of any retained version can tell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.storage.stored import BACKENDS, new_store

from queryable_state.server.state_server.stores.clean_up import MARGIN_MS, removable
from queryable_state.server.storage.overlay import OverlayBuilder
from queryable_state.v1.registration_pb2 import StateRegistration, TimeToLive
from queryable_state.wire.changes import ChangeBlock
from queryable_state.wire.schema.types import Types
from queryable_state.wire.values.lifetime import gone_ms
from queryable_state.wire.values.value_codec import ValueCodec, is_stale

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from queryable_state.server.storage.overlay import Overlay
    from queryable_state.server.storage.store import StateStore

STATE_ID = 1
VALUES = ValueCodec.of(Types.LONG())
KEYS = [bytes((0, 0, number, 0)) for number in range(12)]


def overlay(records: Mapping[bytes, bytes | None]) -> Overlay:
    builder = OverlayBuilder()
    block = ChangeBlock(format_version=1, state_id=STATE_ID)
    for key, value in records.items():
        if value is None:
            block.deleted_keys.append(key)
        else:
            block.put_keys.append(key)
            block.put_values.append(value)
    builder.add_block(block)
    return builder.build()


def declared(*, ttl_ms: int, returns_expired: bool = False) -> StateRegistration:
    return StateRegistration(ttl=TimeToLive(ttl_ms=ttl_ms, return_expired=returns_expired))


def run_batch(store: StateStore, batch_id: int, records: Mapping[bytes, bytes | None]) -> None:
    store.seal(batch_id, overlay(records), (1, batch_id))
    store.commit(batch_id)


def clean(store: StateStore, state: StateRegistration, timestamp_ms: int) -> None:
    is_gone = removable(state, timestamp_ms)
    assert is_gone is not None
    place: bytes | None = b""
    while place is not None:
        place = store.clean_up(STATE_ID, place, 3, is_gone)


@pytest.mark.parametrize("backend", BACKENDS)
def test_gone_values_leave_the_base_and_others_stay(backend: str, tmp_path: Path) -> None:
    state = declared(ttl_ms=100)
    now_ms = MARGIN_MS + 1_000
    with new_store(backend, tmp_path / "store", [STATE_ID], -1) as store:
        run_batch(
            store,
            0,
            {
                KEYS[0]: VALUES.encode(0, 900),
                KEYS[1]: VALUES.encode(1, 901),
                KEYS[2]: VALUES.encode(2),
                KEYS[3]: b"\x20\x01",
            },
        )
        assert not store.compact(0, 100)
        clean(store, state, now_ms)
        assert [key for key, _ in store.prefix(STATE_ID, b"")] == KEYS[1:4]
        # At least the margin after they are gone.
        clean(store, state, now_ms + 1)
        assert [key for key, _ in store.prefix(STATE_ID, b"")] == KEYS[2:4]


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_state_that_returns_expired_values_keeps_them_for_one_more_ttl(
    backend: str, tmp_path: Path
) -> None:
    state = declared(ttl_ms=100, returns_expired=True)
    with new_store(backend, tmp_path / "store", [STATE_ID], -1) as store:
        run_batch(store, 0, {KEYS[0]: VALUES.encode(0, 900)})
        assert not store.compact(0, 100)
        clean(store, state, MARGIN_MS + 1_099)
        assert store.get(STATE_ID, KEYS[0]) is not None
        clean(store, state, MARGIN_MS + 1_100)
        assert store.get(STATE_ID, KEYS[0]) is None


def test_a_value_under_a_newer_version_is_shadowed_not_lost(tmp_path: Path) -> None:
    """The base has the old value; the overlay above it is not compacted."""
    state = declared(ttl_ms=100)
    with new_store("heap", tmp_path / "store", [STATE_ID], -1) as store:
        run_batch(store, 0, {KEYS[0]: VALUES.encode(0, 900)})
        assert not store.compact(0, 100)
        newer = VALUES.encode(1, MARGIN_MS + 1_000)
        run_batch(store, 1, {KEYS[0]: newer})
        clean(store, state, MARGIN_MS + 1_000)
        assert store.get(STATE_ID, KEYS[0]) == newer
        store.compact(1, 100)
        assert store.get(STATE_ID, KEYS[0]) == newer


def test_clean_up_waits_for_a_compaction_to_finish(tmp_path: Path) -> None:
    state = declared(ttl_ms=100)
    with new_store("heap", tmp_path / "store", [STATE_ID], -1) as store:
        run_batch(store, 0, {KEYS[0]: VALUES.encode(0, 900)})
        store.compact(0, 100)
        run_batch(store, 1, {bytes((0, 1, *n.to_bytes(2))): VALUES.encode(1) for n in range(600)})
        assert store.compact(1, 1)
        is_gone = removable(state, MARGIN_MS + 1_000)
        assert is_gone is not None
        assert store.clean_up(STATE_ID, b"", 10, is_gone) == b""
        assert not store.compact(1, 1_000)
        assert store.clean_up(STATE_ID, b"", 10, is_gone) is not None
        assert store.get(STATE_ID, KEYS[0]) is None


writes = st.dictionaries(st.sampled_from(KEYS), st.booleans(), max_size=6)
steps = st.lists(
    st.one_of(
        st.tuples(st.just("batch"), st.integers(0, 60), writes),
        st.tuples(st.just("compact"), st.integers(0, 4), st.integers(1, 8)),
        st.tuples(st.just("clean"), st.integers(0, 11), st.integers(1, 5)),
        st.tuples(st.just("view"), st.integers(0, 9), st.just(0)),
    ),
    max_size=40,
)


@pytest.mark.parametrize("backend", BACKENDS)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps, ttl_ms=st.integers(1, 120), returns_expired=st.booleans(), uuid=st.uuids())
def test_no_reader_of_a_retained_version_can_tell(
    backend: str,
    tmp_path: Path,
    steps: list[tuple[str, int, object]],
    ttl_ms: int,
    returns_expired: bool,
    uuid: object,
) -> None:
    """Open views do not change. A new view of version v, by the clock of batch v, reads as if
    nothing were ever cleaned up."""
    state = declared(ttl_ms=ttl_ms, returns_expired=returns_expired)
    times = {-1: 0}
    contents: dict[int, dict[bytes, bytes]] = {-1: {}}
    held = []
    with new_store(backend, tmp_path / str(uuid), [STATE_ID], -1) as store:
        for kind, first, second in steps:
            newest = store.committed_version
            if kind == "batch":
                assert isinstance(second, dict)
                batch_id, now_ms = newest + 1, times[newest] + first
                changed = {
                    key: VALUES.encode(batch_id, now_ms) if is_put else None
                    for key, is_put in second.items()
                }
                run_batch(store, batch_id, changed)
                after = contents[newest] | changed
                contents[batch_id] = {k: v for k, v in after.items() if v is not None}
                times[batch_id] = now_ms
            elif kind == "compact":
                assert isinstance(second, int)
                store.compact(min(store.base_version + first, newest), second)
            elif kind == "clean":
                assert isinstance(second, int)
                # The margin only delays clean-up.
                is_gone = removable(state, times[store.base_version] + MARGIN_MS)
                assert is_gone is not None
                place = store.clean_up(STATE_ID, KEYS[first], second, is_gone)
                assert place is None or place >= KEYS[first]
            else:
                version = min(store.base_version + first, newest)
                view = store.view(version)
                held.append((view, view.prefix(STATE_ID, b"")))
            for view, seen in held:
                assert view.prefix(STATE_ID, b"") == seen
            for version in range(store.base_version, store.committed_version + 1):
                judged_ms = gone_ms(state, times[version])
                assert judged_ms is not None
                with store.view(version) as view:
                    read = dict(view.prefix(STATE_ID, b""))
                live = {k: v for k, v in read.items() if not is_stale(v, judged_ms)}
                assert live == {
                    key: value
                    for key, value in contents[version].items()
                    if not is_stale(value, judged_ms)
                }
        for view, _ in held:
            view.close()
