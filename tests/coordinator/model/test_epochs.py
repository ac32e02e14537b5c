"""Run epochs grow over runs, drivers and stores."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint.state_root import StateRoot
from queryable_state.server.coordinator.model.epochs import Epochs

if TYPE_CHECKING:
    from pathlib import Path

QUERY = b"q" * 16
OTHER = b"o" * 16


def test_a_run_has_one_epoch_and_the_next_run_a_higher_one() -> None:
    epochs = Epochs()
    first = epochs.of(QUERY, b"1")
    assert epochs.of(QUERY, b"1") == first >= 1
    assert epochs.of(QUERY, b"2") > first
    assert epochs.find(QUERY, b"1") is None


def test_epochs_of_a_root_grow_over_drivers(tmp_path: Path) -> None:
    root = StateRoot(str(tmp_path), storage_of(str(tmp_path)))
    assert Epochs().of(QUERY, b"1" * 16, root) == 1
    assert Epochs().of(QUERY, b"2" * 16, root) == 2


def test_a_run_that_moves_to_a_root_still_gets_a_higher_epoch(tmp_path: Path) -> None:
    epochs = Epochs()
    newest = max(epochs.of(QUERY, bytes([number])) for number in range(3))
    root = StateRoot(str(tmp_path), storage_of(str(tmp_path)))
    assert epochs.of(QUERY, b"r" * 16, root) > newest


def test_nothing_is_kept_of_a_forgotten_query() -> None:
    epochs = Epochs()
    epochs.of(QUERY, b"1")
    epochs.of(OTHER, b"1")
    epochs.forget(QUERY)
    assert epochs.find(QUERY, b"1") is None
    assert epochs.find(OTHER, b"1") is not None


def test_a_newer_epoch_shows_whoever_took_it_and_however_many_were_taken(tmp_path: Path) -> None:
    root = StateRoot(str(tmp_path), storage_of(str(tmp_path)))
    with ThreadPoolExecutor(8) as threads:
        taken = list(threads.map(root.allocate_epoch, (bytes([n]) for n in range(1, 21))))
    assert sorted(taken) == list(range(1, 21))
    assert [epoch for epoch in taken if not root.has_newer_epoch(epoch)] == [20]
