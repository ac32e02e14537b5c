"""A store and its model, as a state machine that tries any order of calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.storage.model import (
    OPERATOR_STATES,
    STATES,
    TIMERS,
    Batch,
    Contents,
    batches,
    keys,
    prefixes,
    state_ids,
)
from tests.storage.stored import new_store

from queryable_state.wire.errors import Reason, RetryLaterError, SupersededError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from queryable_state.server.storage.store import StateStore, StateView

ALL_STATES = STATES + OPERATOR_STATES


class Staged(NamedTuple):
    version: int
    token: tuple[int, int]
    batch: Batch
    contents: Contents


@dataclass
class Held:
    """An open view, what it must read, and a scan under way."""

    view: StateView
    contents: Contents
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
        self.paths = 0
        self.store: StateStore | None = None

    @initialize(committed=st.integers(-1, 3))
    def open(self, committed: int) -> None:
        self.start(
            new_store(self.backend, self.new_path(), ALL_STATES, committed), committed, Contents()
        )

    def start(self, store: StateStore, committed: int, contents: Contents) -> None:
        """Goes on with a store that is at `committed` and has nothing above its base."""
        self.store = store
        self.held.clear()
        self.base = self.committed = committed
        self.versions: dict[int, Contents] = {committed: contents}
        self.batches: dict[int, Batch] = {}
        self.staged: Staged | None = None

    def new_path(self) -> Path:
        self.paths += 1
        return self.directory / str(self.paths)

    @property
    def opened(self) -> StateStore:
        assert self.store is not None
        return self.store

    @property
    def committed_contents(self) -> Contents:
        return self.versions[self.committed]

    @property
    def newest_contents(self) -> Contents:
        return self.staged.contents if self.staged else self.committed_contents

    @rule(batch=batches, ahead=st.integers(1, 3), next_timers=st.booleans())
    def seal(self, batch: Batch, ahead: int, next_timers: bool) -> None:
        """With or without the next timers after it, which change how later reads are done."""
        version = self.committed + ahead
        self.attempt += 1
        if self.staged and version > self.staged.version:
            with pytest.raises(RetryLaterError) as refused:
                self.opened.seal(version, batch.overlay(), (1, self.attempt))
            assert refused.value.reason == Reason.BEHIND
            return
        overlay = batch.overlay()
        if next_timers:
            contents = self.committed_contents.after(batch)
            assert self.opened.next_timers(TIMERS, overlay) == contents.next_timers()
        self.opened.seal(version, overlay, (1, self.attempt))
        self.note_staged(version, (1, self.attempt), batch)

    @precondition(lambda self: self.staged)
    @rule(batch=batches)
    def seal_again_with_the_same_token(self, batch: Batch) -> None:
        assert self.staged is not None
        version, token = self.staged.version, self.staged.token
        self.opened.seal(version, batch.overlay(), token)
        self.note_staged(version, token, batch)

    def note_staged(self, version: int, token: tuple[int, int], batch: Batch) -> None:
        self.staged = Staged(version, token, batch, self.committed_contents.after(batch))

    @precondition(lambda self: self.staged)
    @rule(batch=batches)
    def seal_with_a_lower_token(self, batch: Batch) -> None:
        assert self.staged is not None
        epoch, attempt = self.staged.token
        with pytest.raises(SupersededError) as refused:
            self.opened.seal(self.staged.version, batch.overlay(), (epoch, attempt - 1))
        assert refused.value.reason == Reason.STALE_TOKEN

    @rule(batch=batches, behind=st.integers(0, 1))
    def seal_a_committed_version(self, batch: Batch, behind: int) -> None:
        with pytest.raises(SupersededError) as refused:
            self.opened.seal(self.committed - behind, batch.overlay(), (9, 9))
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
            if self.staged and self.staged.version == passed:
                self.versions[passed] = self.staged.contents
                self.batches[passed] = self.staged.batch
                self.staged = None
        self.committed = version

    @precondition(lambda self: self.staged)
    @rule()
    def commit_what_is_staged(self) -> None:
        assert self.staged is not None
        self.commit(self.staged.version - self.committed)

    @rule(batch=batches)
    def run_a_batch(self, batch: Batch) -> None:
        """The common case, so that versions pile up under the open views."""
        self.discard()
        self.seal(batch, 1, True)
        self.commit(1)

    @rule(ahead=st.integers(0, 4), max_records=st.integers(1, 12))
    def compact(self, ahead: int, max_records: int) -> None:
        up_to = self.base + ahead
        more = self.opened.compact(up_to, max_records)
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
            readable.append(self.staged.version)
        version = data.draw(st.sampled_from(readable))
        contents = (
            self.staged.contents
            if self.staged and version == self.staged.version
            else self.versions[version]
        )
        self.held.append(Held(self.opened.view(version), contents))

    @rule()
    def ask_for_versions_that_are_not_there(self) -> None:
        with pytest.raises(SupersededError):
            self.opened.view(self.base - 1)
        beyond = (self.staged.version if self.staged else self.committed) + 1
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
                assert held.scanned == held.contents.of(held.scanned_state)
                held.scan = None
                return
            held.scanned.append(record)
        expected = held.contents.of(held.scanned_state)
        assert held.scanned == expected[: len(held.scanned)]

    @precondition(lambda self: self.held)
    @rule(
        data=st.data(), state_id=state_ids, asked=st.lists(keys, max_size=6), start=keys, end=keys
    )
    def read_a_view(
        self, data: st.DataObject, state_id: int, asked: list[bytes], start: bytes, end: bytes
    ) -> None:
        held = data.draw(st.sampled_from(self.held))
        expected = [held.contents.records.get((state_id, key)) for key in asked]
        assert held.view.multi_get(state_id, asked) == expected
        assert [held.view.get(state_id, key) for key in asked] == expected
        assert list(held.view.scan(state_id, start, end)) == [
            record for record in held.contents.of(state_id) if start <= record[0] < end
        ]

    @rule(
        state_id=state_ids,
        asked=st.lists(keys, max_size=6),
        prefix=prefixes,
        limit=st.integers(0, 3),
    )
    def read_the_store(self, state_id: int, asked: list[bytes], prefix: bytes, limit: int) -> None:
        for uncommitted in (False, True):
            contents = self.newest_contents if uncommitted else self.committed_contents
            records = contents.records
            read = self.opened.reader(state_id, uncommitted)
            for key in asked:
                assert self.opened.get(state_id, key, uncommitted) == records.get((state_id, key))
                assert read(key) == records.get((state_id, key))
            under = [each for each in contents.of(state_id) if each[0].startswith(prefix)]
            found = self.opened.prefix(state_id, prefix, uncommitted, limit)
            assert found == (under[:limit] if limit else under)
            for operator_state in OPERATOR_STATES:
                elements = contents.lists.get(operator_state, ())
                assert self.opened.operator_state(operator_state, uncommitted) == [*elements]

    @rule(committed=st.integers(-1, 3), luck=st.integers(0, 9))
    def crash(self, committed: int, luck: int) -> None:
        """Nothing survives but what a checkpoint would load again. Rare, or no run gets far."""
        if luck == 9:
            self.opened.destroy()
            self.open(committed)

    @invariant()
    def every_version_held_reads_as_it_did(self) -> None:
        if self.store is None:
            return
        for state_id in STATES:
            assert self.store.prefix(state_id, b"") == self.committed_contents.of(state_id)
            for held in self.held:
                assert held.view.prefix(state_id, b"") == held.contents.of(state_id)
        for operator_state in OPERATOR_STATES:
            for held in self.held:
                elements = held.contents.lists.get(operator_state, ())
                assert held.view.operator_state(operator_state) == [*elements]
        assert self.store.committed_version == self.committed
        assert self.store.staged_version == (self.staged.version if self.staged else None)
        assert self.store.staged_token == (self.staged.token if self.staged else None)

    def teardown(self) -> None:
        if self.store is not None:
            self.store.destroy()
