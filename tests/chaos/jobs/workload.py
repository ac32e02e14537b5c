"""The input of a round: rows that follow from a seed, one file a batch; and what is kept of it."""

from __future__ import annotations

import json
import os
import random
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "key string, group string, number bigint, amount bigint"
KEYS = tuple(f"key_{number}" for number in range(60))
GROUPS = tuple(f"group_{number}" for number in range(7))

JOB_NAME = "chaos"
TOTALS, RECENT, SHARES, GROUP_SUMS = "totals", "recent", "shares", "group_sums"
KEY_STATES = (TOTALS, RECENT, SHARES)
STATES = (*KEY_STATES, GROUP_SUMS)

RECENT_LENGTH = 10
"""A list is cleared before it grows beyond this."""
SHARE_LIMIT = 6
"""A map entry is removed when its count gets here."""

_FIRST_MTIME = 1_700_000_000


class Row(NamedTuple):
    """One row; its number is unique in the whole input and grows with the batches."""

    key: str
    group: str
    number: int
    amount: int


def rows_of(seed: int, batch_id: int) -> list[Row]:
    """The rows of a batch, in the order of its file.

    Every fifth batch or so has one key alone, so that most subtasks have nothing to do.
    """
    chance = random.Random(f"{seed}-{batch_id}")
    keys = [chance.choice(KEYS)] if chance.random() < 0.2 else list(KEYS)
    count = chance.randrange(1, 150)
    return [
        Row(key, GROUPS[KEYS.index(key) % len(GROUPS)], batch_id * 1000 + i, chance.randrange(1000))
        for i, key in enumerate(chance.choices(keys, k=count))
    ]


def input_file(folder: Path, batch_id: int) -> Path:
    """The file of a batch."""
    return folder / f"{batch_id:05}.json"


class Feed:
    """Writes the files of batches, in order, where the job reads them."""

    def __init__(self, folder: Path, seed: int) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self._seed = seed
        self.batches = 0
        """How many are written."""

    def add(self) -> None:
        """Writes the next batch."""
        rows = rows_of(self._seed, self.batches)
        draft = self.folder / f".{self.batches}"
        draft.write_text("".join(json.dumps(row._asdict()) + "\n" for row in rows))
        # The source takes files by age.
        age = _FIRST_MTIME + self.batches
        os.utime(draft, (age, age))
        draft.rename(input_file(self.folder, self.batches))
        self.batches += 1
