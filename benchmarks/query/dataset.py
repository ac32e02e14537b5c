"""The dataset of all peers: string keys, string values of 8 to 50 bytes that end in a revision."""

from __future__ import annotations

import random
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

QUERYABLE_NAME = "benchmark"
MAX_PARALLELISM = 128
REVISION_LENGTH = 3
REVISIONS = 16**REVISION_LENGTH
BATCH_KEYS = 100


class Records(Protocol):
    """The keys of a job and the value of each at every revision."""

    @property
    def keys(self) -> Sequence[str]:
        """Key by number, all distinct."""
        ...

    def value(self, number: int, revision: int) -> str:
        """The value of a key at a revision."""
        ...


@dataclass(frozen=True)
class Dataset:
    """The keys and values; they depend only on the size."""

    size: int
    """Number of keys, at most 100,000 so that the shortest value has 8 bytes."""

    @cached_property
    def keys(self) -> list[str]:
        """Key by number."""
        return [f"sensor_{number}" for number in range(self.size)]

    @cached_property
    def missing_keys(self) -> list[str]:
        """Missing keys, as many as the present ones."""
        return [f"absent_{number}" for number in range(self.size)]

    @cached_property
    def stems(self) -> list[str]:
        """The beginning that a key's value has at every revision; distinct by key."""
        lengths = random.Random(7)
        return [
            f"{number:05}".ljust(lengths.randint(5, 50 - REVISION_LENGTH), "x")
            for number in range(self.size)
        ]

    @cached_property
    def raw_stems(self) -> list[bytes]:
        """The stems as bytes, as redis returns them."""
        return [stem.encode() for stem in self.stems]

    def value(self, number: int, revision: int) -> str:
        """The value of a key at a revision."""
        return f"{self.stems[number]}{revision % REVISIONS:0{REVISION_LENGTH}x}"

    def order(self) -> list[int]:
        """All key numbers, shuffled: the look-up order of a closed loop."""
        numbers = list(range(self.size))
        random.Random(11).shuffle(numbers)
        return numbers

    def updates(self, revision: int, count: int) -> list[int]:
        """The distinct key numbers of one revision."""
        return random.Random(1000 + revision).sample(range(self.size), min(count, self.size))

    def values_at(self, revision: int, count: int) -> list[str]:
        """All values after the revisions up to this one, each of `count` keys."""
        revisions = [0] * self.size
        for written in range(1, revision + 1):
            for number in self.updates(written, count):
                revisions[number] = written
        return [self.value(number, written) for number, written in enumerate(revisions)]
