"""The input of a round, rows in files that follow from a seed; and what is kept of it."""

from __future__ import annotations

import json
import os
import random
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "key string, group string, number bigint, amount bigint, at bigint"
KEYS = tuple(f"key_{number}" for number in range(60))
GROUPS = tuple(f"group_{number}" for number in range(7))

JOB_NAME = "chaos"
TOTALS, RECENT, SHARES, GROUP_SUMS = "totals", "recent", "shares", "group_sums"
SILENCES = "silences"
KEY_STATES = (TOTALS, RECENT, SHARES, SILENCES)
STATES = (*KEY_STATES, GROUP_SUMS)
"""Those that have a value for each key."""
TIMERS, WINDOW_SUMS = "ledger.timers", "window_sums"

RECENT_LENGTH = 10
"""A list is cleared before it grows beyond this."""
SHARE_LIMIT = 6
"""A map entry is removed when its count gets here."""

START_MS = 1_767_225_600_000
STEP_MS = 400
"""Event time between two files."""
SPREAD_MS = 4_000
"""Rows of a file are at most so much older than its newest ones may be."""
DELAY_MS = 1_500
"""Of the watermark."""
SILENCE_MS = 1_500
"""An event-time timer of a key is due so long after its newest row."""
TICK_MS = 700
"""A processing-time timer of a key is due so long after the batch of some of its rows."""
TICK_EVERY = 40
"""Rows whose number is a multiple have such a timer."""
WINDOW_MS, LATENESS_MS = 2_000, 1_000

_FIRST_MTIME = 1_700_000_000


class Row(NamedTuple):
    """One row; its number is unique in the whole input and grows with the files."""

    key: str
    group: str
    number: int
    amount: int
    at: int
    """Event time in milliseconds since the epoch; unique in its file."""


def rows_of(seed: int, number: int) -> list[Row]:
    """The rows of a file, in order.

    Every fifth file or so has one key alone, so that most subtasks have nothing to do.
    """
    chance = random.Random(f"{seed}-{number}")
    keys = [chance.choice(KEYS)] if chance.random() < 0.2 else list(KEYS)
    count = chance.randrange(1, 150)
    newest = START_MS + number * STEP_MS
    times = random.Random(f"times-{seed}-{number}")
    ages = times.sample(range(SPREAD_MS), k=count)
    return [
        Row(
            key,
            GROUPS[KEYS.index(key) % len(GROUPS)],
            number * 1000 + i,
            chance.randrange(1000),
            newest - ages[i],
        )
        for i, key in enumerate(chance.choices(keys, k=count))
    ]


def input_file(folder: Path, number: int) -> Path:
    """A file of the input."""
    return folder / f"{number:05}.json"


class Feed:
    """Writes the files of the input, in order, where the job reads them."""

    def __init__(self, folder: Path, seed: int) -> None:
        folder.mkdir(parents=True)
        self.folder = folder
        self._seed = seed
        self.files = 0
        """How many are written."""

    def add(self) -> None:
        """Writes the next file."""
        rows = rows_of(self._seed, self.files)
        draft = self.folder / f".{self.files}"
        draft.write_text("".join(json.dumps(row._asdict()) + "\n" for row in rows))
        # The source takes files by age.
        age = _FIRST_MTIME + self.files
        os.utime(draft, (age, age))
        draft.rename(input_file(self.folder, self.files))
        self.files += 1
