"""Samples: shares of the files of tests that run only on request, and of generated examples."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Self

import hypothesis

if TYPE_CHECKING:
    from collections.abc import Mapping

_WHOLE: Final = 100
"""Examples of a test without a number of its own, as hypothesis has it."""


def register_profiles() -> None:
    """Registers how many examples hypothesis generates: `sample`, a third of `whole`.

    The examples of a sample are others in each run; `make test-wide` generates all.
    """
    # Machines are shared and slow now and then: no example fails for its time.
    hypothesis.settings.register_profile(
        "whole",
        max_examples=_WHOLE,
        deadline=None,
        derandomize=False,
        print_blob=True,
        suppress_health_check=[hypothesis.HealthCheck.too_slow],
    )
    whole = hypothesis.settings.get_profile("whole")
    hypothesis.settings.register_profile("sample", whole, max_examples=_WHOLE // 3)


def sampled(examples: int) -> int:
    """The examples that a test of so many generates with the profile that is loaded."""
    return max(8, examples * hypothesis.settings().max_examples // _WHOLE)


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
