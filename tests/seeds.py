"""Seeds of random programs: a few in the long tests, many in the wide ones, or those one names."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Final

import pytest

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

ARGUMENT: Final = "program_seed"
"""The argument of the tests that run a random program."""

IN_LONG_TESTS: Final = 2
"""As many seeds are in the long tests, from 1 on."""

IN_WIDE_TESTS: Final = 60
"""As many seeds are in the long and the wide tests together."""


def parse(text: str) -> list[int]:
    """Reads `7`, `3,5` and `1-60,99`; raises for anything else."""
    seeds: list[int] = []
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            seeds += range(int(first), int(last if dash else first) + 1)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r} are no seeds: numbers and ranges, such as 1-60,99"
        ) from None
    return seeds


def parameters(seeds: list[int] | None) -> list[ParameterSet]:
    """The parameters of a random test: those seeds, or all of the long and wide tests."""
    if seeds is not None:
        return [pytest.param(seed, marks=pytest.mark.wide) for seed in seeds]
    return [
        pytest.param(seed, marks=() if seed <= IN_LONG_TESTS else pytest.mark.wide)
        for seed in range(1, IN_WIDE_TESTS + 1)
    ]
