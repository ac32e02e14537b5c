"""The rows of a file sink, by the log of the sink, against those of the input."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from tests.chaos.checks.checker import Kind
from tests.chaos.checks.sink_output import check_output
from tests.chaos.jobs.workload import Row, rows_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

SEED = 3
BATCHES = 4


@pytest.fixture
def output(tmp_path: Path) -> Path:
    """What a sink leaves of the whole input: compacted at batch 2, as Spark names it."""
    (tmp_path / "_spark_metadata").mkdir()
    for batch in range(BATCHES):
        write(tmp_path, f"part {batch}.json", rows_of(SEED, batch))
    log(tmp_path, "0", ["part 0.json"])
    log(tmp_path, "2.compact", ["part 0.json", "part 1.json", "part 2.json"])
    log(tmp_path, "3", ["part 3.json"])
    return tmp_path


def write(folder: Path, name: str, rows: Sequence[Row]) -> None:
    lines = [json.dumps({**row._asdict(), "ones": 1}) for row in rows]
    (folder / name).write_text("\n".join(lines) + "\n")


def log(folder: Path, batch: str, names: Sequence[str]) -> None:
    entries = [{"path": (folder / name).as_uri(), "action": "add"} for name in names]
    lines = ["v1", *map(json.dumps, entries)]
    (folder / "_spark_metadata" / batch).write_text("\n".join(lines))


def test_every_row_once_passes(output: Path) -> None:
    assert not check_output(output, SEED, BATCHES)


def test_files_that_no_log_names_do_not_count(output: Path) -> None:
    write(output, "torn.json", rows_of(SEED, 1))
    assert not check_output(output, SEED, BATCHES)


def test_a_batch_that_is_there_twice_is_found(output: Path) -> None:
    write(output, "again.json", rows_of(SEED, 3))
    log(output, "4", ["again.json"])
    assert {violation.kind for violation in check_output(output, SEED, BATCHES)} == {Kind.OUTPUT}


def test_a_row_that_is_missing_is_found(output: Path) -> None:
    write(output, "part 3.json", rows_of(SEED, 3)[:-1])
    (violation,) = check_output(output, SEED, BATCHES)
    assert "0 times instead of 1" in violation.what
