"""Writes of RocksDB that its disk refuses, and those that fail otherwise."""

from __future__ import annotations

import pytest

from queryable_state.server.storage.rocksdb.errors import translated
from queryable_state.wire.errors import CheckpointError, InternalError, Reason


@pytest.mark.parametrize(
    "text",
    [
        "IO error: No space left on device: While appending to file: /d/000012.sst",
        "IO error: Disk quota exceeded: While open a file for appending: /d/7.log",
        "IO error: Read-only file system: While mkdir if missing: /d",
    ],
)
def test_a_refused_write_says_that_nothing_is_damaged(text: str) -> None:
    error = translated(Exception(text), "flush")
    assert isinstance(error, CheckpointError)
    assert error.reason == Reason.STORAGE_WRITE_FAILED
    assert "free space or quota" in error.message
    assert text in error.message


def test_another_error_of_a_write_is_not_called_a_refusal() -> None:
    error = translated(Exception("IO error: Input/output error: /d/1.sst"), "flush")
    assert isinstance(error, InternalError)
