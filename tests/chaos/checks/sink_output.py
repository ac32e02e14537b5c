"""What the file sink of a round has written, by its own log."""

from __future__ import annotations

import collections
import json
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlparse

from tests.chaos.checks.checker import Kind, Violation
from tests.chaos.jobs.workload import rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

_COMPACT = ".compact"
_SHOWN = 5


def check_output(output: Path, seed: int, batches: int) -> list[Violation]:
    """What is wrong with the rows: each row of the input once, and no other."""
    wanted = collections.Counter(
        (row.group, row.number, row.amount)
        for batch in range(batches)
        for row in rows_of(seed, batch)
    )
    found = collections.Counter(
        (row["group"], row["number"], row["amount"])
        for path in _committed_files(output)
        for row in map(json.loads, path.read_text().splitlines())
    )
    differ = {row: (found[row], wanted[row]) for row in wanted | found if found[row] != wanted[row]}
    return [
        Violation(Kind.OUTPUT, f"{row} stands there {there} times instead of {right}")
        for row, (there, right) in sorted(differ.items())[:_SHOWN]
    ]


def _committed_files(output: Path) -> Iterator[Path]:
    """Files the sink's log names: of the newest compacted entry, and of those after it."""
    log = output / "_spark_metadata"
    numbers = {
        int(path.name.removesuffix(_COMPACT)): path
        for path in log.iterdir()
        if path.name.removesuffix(_COMPACT).isdigit()
    }
    compacted = max((n for n, path in numbers.items() if path.suffix == _COMPACT), default=-1)
    for number, path in sorted(numbers.items()):
        if number < compacted:
            continue
        # The first line is the version of the log.
        for line in path.read_text().splitlines()[1:]:
            entry = json.loads(line)
            if entry["action"] == "add":
                yield Path(unquote(urlparse(entry["path"]).path))
