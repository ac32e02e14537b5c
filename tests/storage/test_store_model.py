"""Both stores against a dictionary of versions, with snapshots and restores in any order."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule, run_state_machine_as_test
from tests.samples import sampled
from tests.storage.model import STATES, Batch, Contents
from tests.storage.store_machine import ALL_STATES
from tests.storage.stored import BACKENDS, Stored, restore_whole, store_snapshot
from tests.storage.timer_machine import TimerMachine

from queryable_state.server.storage.layered import compaction, layer_stack
from queryable_state.server.storage.rocksdb import files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.server.storage.snapshot import StoreSnapshot


@dataclass
class Snapshot:
    """A snapshot, the contents it must have, and an unfinished read of one of its states."""

    snapshot: StoreSnapshot
    contents: Contents
    reading: Iterator[tuple[bytes, bytes]] | None = None
    read: int = 0


class DurableStoreMachine(TimerMachine):
    """Takes snapshots, writes them to disk, and continues with a store restored from one."""

    def __init__(self, backend: str, directory: Path) -> None:
        super().__init__(backend, directory)
        self.snapshots: list[Snapshot] = []
        self.stored: tuple[Stored, Contents, dict[int, Batch]] | None = None

    @precondition(lambda self: self.store and len(self.snapshots) < 3)
    @rule(data=st.data(), native=st.booleans())
    def snapshot(self, data: st.DataObject, native: bool) -> None:
        version = data.draw(st.integers(self.base, self.committed))
        if native:
            while self.opened.compact(version, 3):
                pass
            self.base = self.opened.base_version
        snapshot = self.opened.snapshot(version, self.new_path() if native else None)
        assert snapshot.version == version
        self.snapshots.append(Snapshot(snapshot, self.versions[version]))

    @precondition(lambda self: self.snapshots)
    @rule(data=st.data(), steps=st.integers(1, 4))
    def read_a_cut_on(self, data: st.DataObject, steps: int) -> None:
        """Compactions, commits and closing views come between the steps."""
        made = data.draw(st.sampled_from(self.snapshots))
        if made.reading is None:
            made.reading, made.read = made.snapshot.records(STATES[0]), 0
        expected = made.contents.of(STATES[0])
        for _ in range(steps):
            record = next(made.reading, None)
            if record is None:
                assert made.read == len(expected)
                made.reading = None
                return
            assert record == expected[made.read]
            made.read += 1

    @precondition(lambda self: self.snapshots)
    @rule(data=st.data())
    def write_a_cut(self, data: st.DataObject) -> None:
        """From here on a crash loses nothing that is committed or sealed."""
        made = self.snapshots.pop(data.draw(st.integers(0, len(self.snapshots) - 1)))
        for state_id in STATES:
            assert list(made.snapshot.records(state_id)) == made.contents.of(state_id)
        assert dict(made.snapshot.operator_states()) == made.contents.lists
        self.stored = (store_snapshot(made.snapshot, self.new_path()), made.contents, self.batches)
        made.reading = None
        made.snapshot.close()

    @precondition(lambda self: self.stored)
    @rule(backend=st.sampled_from(BACKENDS))
    def crash_and_restore(self, backend: str) -> None:
        """The snapshot, then the changelogs of later batches, then what was staged."""
        assert self.stored is not None
        stored, contents, batches = self.stored
        committed, staged = self.committed, self.staged
        newest = self.committed_contents if batches is self.batches else contents
        self.close_cuts()
        self.opened.destroy()
        self.backend = backend
        store = restore_whole(backend, self.new_path(), stored, ALL_STATES)
        assert store.base_version == store.committed_version == stored.version
        for state_id in STATES:
            assert store.prefix(state_id, b"") == contents.of(state_id)
        if batches is not self.batches:
            self.start(store, stored.version, contents)
            return
        for version in range(stored.version + 1, committed + 1):
            if version in batches:
                store.load(version, batches[version].overlay())
        store.commit(committed)
        self.start(store, committed, newest)
        self.batches = batches
        if staged:
            store.seal(staged.version, staged.batch.overlay(), staged.token)
            self.note_staged(staged.version, staged.token, staged.batch)
            assert self.staged is not None
            assert self.staged.contents == staged.contents
        store.compact(committed, 1)
        self.base = store.base_version

    @invariant()
    def cuts_know_their_operator_states(self) -> None:
        for made in self.snapshots:
            assert dict(made.snapshot.operator_states()) == made.contents.lists

    def start(self, *args: Any) -> None:
        self.close_cuts()
        super().start(*args)

    def close_cuts(self) -> None:
        for made in self.snapshots:
            made.reading = None
            made.snapshot.close()
        self.snapshots.clear()

    def teardown(self) -> None:
        self.close_cuts()
        super().teardown()


@pytest.mark.hypothesis
@pytest.mark.parametrize(("backend", "examples"), [("heap", 50), ("rocksdb", 30)])
def test_a_store_behaves_as_its_model(
    backend: str, examples: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks are a few records here, so that every call can fall between two of them."""
    monkeypatch.setattr(compaction, "COMPACT_CHUNK_RECORDS", 2)
    monkeypatch.setattr(layer_stack, "CHUNK_RECORDS", 3)
    monkeypatch.setattr(files, "_READ_RECORDS", 2)

    def machine() -> Any:
        return DurableStoreMachine(backend, Path(tempfile.mkdtemp(dir=tmp_path)))

    run_state_machine_as_test(
        machine,  # type: ignore[arg-type] # any callable that makes a machine will do
        settings=settings(
            max_examples=sampled(examples),
            stateful_step_count=40,
            suppress_health_check=list(HealthCheck),
        ),
    )
    shutil.rmtree(tmp_path, ignore_errors=True)
