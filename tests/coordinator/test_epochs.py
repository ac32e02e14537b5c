"""Run epochs grow, over drivers too."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

from queryable_state.server.coordinator import DirectoryEpochStore, MemoryEpochStore
from queryable_state.server.coordinator.epochs import Epochs
from queryable_state.wire.errors import CorruptDataError, RetryLaterError

if TYPE_CHECKING:
    from pathlib import Path

QUERY, OTHER = b"q" * 16, b"o" * 16


def test_each_run_has_one_epoch_above_the_one_before() -> None:
    epochs = Epochs(MemoryEpochStore())
    assert [epochs.of(QUERY, run) for run in (b"1", b"1", b"2", b"1")] == [1, 1, 2, 1]
    assert epochs.of(OTHER, b"1") == 1


def test_epochs_in_a_directory_grow_over_drivers(tmp_path: Path) -> None:
    assert Epochs(DirectoryEpochStore(tmp_path)).of(QUERY, b"1") == 1
    assert Epochs(DirectoryEpochStore(tmp_path)).of(QUERY, b"2") == 2
    assert Epochs(DirectoryEpochStore(tmp_path)).of(OTHER, b"3") == 1
    assert (tmp_path / QUERY.hex() / "2").read_text() == b"2".hex()


def test_two_drivers_at_once_never_share_an_epoch(tmp_path: Path) -> None:
    def allocate(number: int) -> int:
        return DirectoryEpochStore(tmp_path).allocate(QUERY, bytes([number]))

    with ThreadPoolExecutor(8) as threads:
        epochs = list(threads.map(allocate, range(40)))
    assert sorted(epochs) == list(range(1, 41))


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / QUERY.hex()).write_text("in the way")
    with pytest.raises(RetryLaterError, match="must be writable by the driver"):
        DirectoryEpochStore(tmp_path).allocate(QUERY, b"1")


def test_what_is_not_ours_in_the_folder_is_told(tmp_path: Path) -> None:
    (tmp_path / QUERY.hex()).mkdir()
    (tmp_path / QUERY.hex() / "notes.txt").touch()
    with pytest.raises(CorruptDataError, match=r"notes\.txt"):
        DirectoryEpochStore(tmp_path).allocate(QUERY, b"1")
