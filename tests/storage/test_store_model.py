"""Both stores against a dictionary of versions, under any order of calls."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from queryable_state.internal.v1.changes_pb2 import ChangeBlock
from queryable_state.server.storage import folding, layers
from queryable_state.server.storage.heap import HeapStateStore
from queryable_state.server.storage.overlay import OverlayBuilder
from queryable_state.server.storage.rocksdb import RocksDBStateStore
from queryable_state.server.storage.rocksdb_settings import RocksDBSettings
from queryable_state.wire.errors import Reason, RetryLaterError, SupersededError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.server.storage.overlay import Overlay
    from queryable_state.server.storage.store import StateStore, StateView

STATES = (1, 2)
Records = dict[tuple[int, bytes], bytes]

_BYTES = st.sampled_from([b"\x00", b"a", b"b", b"\xff"])
keys = st.lists(_BYTES, max_size=3).map(b"".join)
prefixes = st.lists(_BYTES, max_size=2).map(b"".join)
values = st.sampled_from([b"", b"1", b"2", b"3"])
state_ids = st.sampled_from(STATES)
blocks = st.lists(
    st.tuples(
        state_ids,
        st.lists(prefixes, max_size=2),
        st.lists(keys, max_size=3),
        st.dictionaries(keys, values, max_size=5),
    ),
    max_size=4,
)
Blocks = list[tuple[int, list[bytes], list[bytes], dict[bytes, bytes]]]


def overlay_of(changes: Blocks) -> Overlay:
    builder = OverlayBuilder()
    for state_id, clears, deletes, puts in changes:
        builder.add_block(
            ChangeBlock(
                format_version=1,
                state_id=state_id,
                cleared_prefixes=clears,
                deleted_keys=deletes,
                put_keys=puts.keys(),
                put_values=puts.values(),
            )
        )
    return builder.build()


def changed(records: Records, changes: Blocks) -> Records:
    """What the records become, one block after the other."""
    result = dict(records)
    for state_id, clears, deletes, puts in changes:
        for state, key in list(result):
            if state == state_id and (key.startswith(tuple(clears)) or key in deletes):
                del result[state, key]
        result.update({(state_id, key): value for key, value in puts.items()})
    return result


def of_state(records: Records, state_id: int) -> list[tuple[bytes, bytes]]:
    return sorted((key, value) for (state, key), value in records.items() if state == state_id)


@dataclass
class Held:
    """An open view, what it must read, and a scan under way."""

    view: StateView
    records: Records
    scan: Iterator[tuple[bytes, bytes]] | None = None
    scanned: list[tuple[bytes, bytes]] = field(default_factory=list)
    scanned_state: int = 0


class StoreMachine(RuleBasedStateMachine):
    """A store and its model, which keeps the whole contents of every version."""

    def __init__(self, backend: str, directory: Path) -> None:
        super().__init__()
        self.backend = backend
        self.directory = directory
        self.held: list[Held] = []
        self.attempt = 0
        self.store: StateStore | None = None

    @initialize(committed=st.integers(-1, 3))
    def open(self, committed: int) -> None:
        store: StateStore
        if self.backend == "heap":
            store = HeapStateStore(committed)
        else:
            sizes = RocksDBSettings(block_cache_bytes=1 << 20, write_buffer_bytes=1 << 16)
            store = RocksDBStateStore(self.directory, sizes, committed)
        for state_id in STATES:
            store.add_state(state_id)
        self.store = store
        self.base = self.committed = committed
        self.versions: dict[int, Records] = {committed: {}}
        self.staged: tuple[int, tuple[int, int], Records] | None = None

    @property
    def opened(self) -> StateStore:
        assert self.store is not None
        return self.store

    @property
    def committed_records(self) -> Records:
        return self.versions[self.committed]

    @property
    def newest_records(self) -> Records:
        return self.staged[2] if self.staged else self.committed_records

    @rule(changes=blocks, ahead=st.integers(1, 3))
    def seal(self, changes: Blocks, ahead: int) -> None:
        version = self.committed + ahead
        self.attempt += 1
        if self.staged and version > self.staged[0]:
            with pytest.raises(RetryLaterError) as refused:
                self.opened.seal(version, overlay_of(changes), (1, self.attempt))
            assert refused.value.reason == Reason.BEHIND
            return
        self.opened.seal(version, overlay_of(changes), (1, self.attempt))
        self.staged = (
            version,
            (1, self.attempt),
            changed(self.committed_records, changes),
        )

    @precondition(lambda self: self.staged)
    @rule(changes=blocks)
    def seal_again_with_the_same_token(self, changes: Blocks) -> None:
        assert self.staged is not None
        version, token, _ = self.staged
        self.opened.seal(version, overlay_of(changes), token)
        self.staged = (version, token, changed(self.committed_records, changes))

    @precondition(lambda self: self.staged)
    @rule(changes=blocks)
    def seal_with_a_lower_token(self, changes: Blocks) -> None:
        assert self.staged is not None
        version, (epoch, attempt), _ = self.staged
        with pytest.raises(SupersededError) as refused:
            self.opened.seal(version, overlay_of(changes), (epoch, attempt - 1))
        assert refused.value.reason == Reason.STALE_TOKEN

    @rule(changes=blocks, behind=st.integers(0, 1))
    def seal_a_committed_version(self, changes: Blocks, behind: int) -> None:
        with pytest.raises(SupersededError) as refused:
            self.opened.seal(self.committed - behind, overlay_of(changes), (9, 9))
        assert refused.value.reason == Reason.ALREADY_COMMITTED

    @rule()
    def discard(self) -> None:
        self.opened.discard_staged()
        self.staged = None

    @rule(ahead=st.integers(-1, 3))
    def commit(self, ahead: int) -> None:
        """Commits the staged version, skips empty ones, or repeats a commit."""
        version = self.committed + ahead
        self.opened.commit(version)
        if ahead <= 0:
            return
        for passed in range(self.committed + 1, version + 1):
            self.versions[passed] = self.versions[passed - 1]
            if self.staged and self.staged[0] == passed:
                self.versions[passed] = self.staged[2]
                self.staged = None
        self.committed = version

    @precondition(lambda self: self.staged)
    @rule()
    def commit_what_is_staged(self) -> None:
        assert self.staged is not None
        self.commit(self.staged[0] - self.committed)

    @rule(changes=blocks)
    def run_a_batch(self, changes: Blocks) -> None:
        """The common case, so that versions pile up under the open views."""
        self.discard()
        self.seal(changes, 1)
        self.commit(1)

    @rule(ahead=st.integers(0, 4), max_records=st.integers(1, 12))
    def fold(self, ahead: int, max_records: int) -> None:
        up_to = self.base + ahead
        more = self.opened.fold(up_to, max_records)
        assert self.base <= self.opened.base_version <= self.committed
        if not more:
            assert self.opened.base_version >= min(up_to, self.committed)
        self.base = self.opened.base_version

    @precondition(lambda self: len(self.held) < 5)
    @rule(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        """Pins a view at any version that can be read."""
        readable = list(range(self.base, self.committed + 1))
        if self.staged:
            readable.append(self.staged[0])
        version = data.draw(st.sampled_from(readable))
        records = (
            self.staged[2] if self.staged and version == self.staged[0] else self.versions[version]
        )
        self.held.append(Held(self.opened.view(version), records))

    @rule()
    def ask_for_versions_that_are_not_there(self) -> None:
        with pytest.raises(SupersededError):
            self.opened.view(self.base - 1)
        beyond = (self.staged[0] if self.staged else self.committed) + 1
        with pytest.raises(RetryLaterError):
            self.opened.view(beyond)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def close_a_view(self, data: st.DataObject) -> None:
        self.held.pop(data.draw(st.integers(0, len(self.held) - 1))).view.close()

    @precondition(lambda self: self.held)
    @rule(data=st.data(), state_id=state_ids, steps=st.integers(1, 5))
    def scan_on(self, data: st.DataObject, state_id: int, steps: int) -> None:
        """Goes on with a scan begun earlier, or begins one."""
        held = data.draw(st.sampled_from(self.held))
        if held.scan is None:
            held.scan, held.scanned = held.view.scan(state_id, b"", None), []
            held.scanned_state = state_id
        for _ in range(steps):
            record = next(held.scan, None)
            if record is None:
                assert held.scanned == of_state(held.records, held.scanned_state)
                held.scan = None
                return
            held.scanned.append(record)
        expected = of_state(held.records, held.scanned_state)
        assert held.scanned == expected[: len(held.scanned)]

    @precondition(lambda self: self.held)
    @rule(
        data=st.data(), state_id=state_ids, asked=st.lists(keys, max_size=6), start=keys, end=keys
    )
    def read_a_view(
        self, data: st.DataObject, state_id: int, asked: list[bytes], start: bytes, end: bytes
    ) -> None:
        held = data.draw(st.sampled_from(self.held))
        expected = [held.records.get((state_id, key)) for key in asked]
        assert held.view.multi_get(state_id, asked) == expected
        assert [held.view.get(state_id, key) for key in asked] == expected
        assert list(held.view.scan(state_id, start, end)) == [
            record for record in of_state(held.records, state_id) if start <= record[0] < end
        ]

    @rule(
        state_id=state_ids,
        asked=st.lists(keys, max_size=6),
        prefix=prefixes,
        limit=st.integers(0, 3),
    )
    def read_the_store(self, state_id: int, asked: list[bytes], prefix: bytes, limit: int) -> None:
        for uncommitted in (False, True):
            records = self.newest_records if uncommitted else self.committed_records
            read = self.opened.reader(state_id, uncommitted)
            for key in asked:
                assert self.opened.get(state_id, key, uncommitted) == records.get((state_id, key))
                assert read(key) == records.get((state_id, key))
            under = [each for each in of_state(records, state_id) if each[0].startswith(prefix)]
            found = self.opened.prefix(state_id, prefix, uncommitted, limit)
            assert found == (under[:limit] if limit else under)

    @rule(committed=st.integers(-1, 3), luck=st.integers(0, 9))
    def crash(self, committed: int, luck: int) -> None:
        """Nothing survives but what a checkpoint would load again. Rare, or no run gets far."""
        if luck == 9:
            self.held.clear()
            self.opened.close()
            self.open(committed)

    @invariant()
    def every_version_held_reads_as_it_did(self) -> None:
        if self.store is None:
            return
        for state_id in STATES:
            assert self.store.prefix(state_id, b"") == of_state(self.committed_records, state_id)
            for held in self.held:
                assert held.view.prefix(state_id, b"") == of_state(held.records, state_id)
        assert self.store.committed_version == self.committed
        assert self.store.staged_version == (self.staged[0] if self.staged else None)
        assert self.store.staged_token == (self.staged[1] if self.staged else None)

    def teardown(self) -> None:
        if self.store is not None:
            self.store.destroy()


@pytest.mark.parametrize(("backend", "examples"), [("heap", 150), ("rocksdb", 60)])
def test_a_store_behaves_as_its_model(
    backend: str, examples: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks are a few records here, so that every call can fall between two of them."""
    monkeypatch.setattr(folding, "FOLD_CHUNK_RECORDS", 2)
    monkeypatch.setattr(layers, "CHUNK_RECORDS", 3)

    def machine() -> Any:
        return StoreMachine(backend, Path(tempfile.mkdtemp(dir=tmp_path)))

    run_state_machine_as_test(
        machine,  # type: ignore[arg-type] # any callable that makes a machine will do
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
    shutil.rmtree(tmp_path, ignore_errors=True)
