"""What the windows of a round put out: a file for each batch that a sink was given."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tests.chaos.checks.checker import Kind, Violation

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import DataFrame
    from tests.chaos.history.history import History

FOLDER = "fired"
_SHOWN = 3


def written(folder: Path, wrong: Path) -> Callable[[DataFrame, int], None]:
    """A sink that writes each batch once; lines in `wrong` name batches that differ when they run
    again."""
    folder.mkdir(exist_ok=True)

    def run(batch: DataFrame, batch_id: int) -> None:
        rows = sorted(list(row) for row in batch.collect())
        path = folder / str(batch_id)
        if path.exists() and (before := json.loads(path.read_text())) != rows:
            with wrong.open("a") as file:
                file.write(f"windows of batch {batch_id}: {before}, and again: {rows}\n")
        draft = path.with_suffix(".draft")
        draft.write_text(json.dumps(rows))
        draft.rename(path)

    return run


def check_fired(folder: Path, history: History, newest: int) -> list[Violation]:
    """What is wrong with the files: each batch up to `newest` has what its windows fire."""
    found = []
    for batch_id in range(newest + 1):
        path = folder / str(batch_id)
        rows: Any = json.loads(path.read_text()) if path.exists() else None
        truth = history.fired(batch_id)
        if rows != truth:
            found.append(
                Violation(Kind.OUTPUT, f"windows of batch {batch_id}: {rows} instead of {truth}")
            )
    return found[:_SHOWN]
