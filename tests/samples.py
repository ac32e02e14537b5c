"""Samples of the tests that run only on request: shares of their files, chosen by a seed."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, kw_only=True)
class Sample:
    """One of several shares of the test files.

    The shares of one tree are disjoint, so as many seeds in a row as there are shares run every
    test once. A file is never divided: its tests share what is slow to start.
    """

    seed: int
    shares: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Reads `SEED/SHARES`; raises `ValueError` for anything else."""
        seed, slash, shares = text.partition("/")
        if not (slash and seed.isdecimal() and shares.isdecimal() and int(shares)):
            raise ValueError(f"{text!r} is no sample: SEED/SHARES, two integers, such as 7/4")
        return cls(seed=int(seed), shares=int(shares))

    def of(self, files: Mapping[str, int]) -> frozenset[str]:
        """The files of this share, from all files and their numbers of tests.

        The largest file first, each file goes to the share that has the fewest tests so far.
        """
        tests = [0] * self.shares
        chosen = set()
        for file in sorted(files, key=lambda file: (-files[file], zlib.crc32(file.encode()))):
            share = min(range(self.shares), key=tests.__getitem__)
            tests[share] += files[file]
            if share == self.seed % self.shares:
                chosen.add(file)
        return frozenset(chosen)

    def __str__(self) -> str:
        return f"{self.seed}/{self.shares}"
