"""What every key was after every batch, and whether answers are of it."""

from __future__ import annotations

import random
from array import array
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np

from benchmarks.closed_loop import WrongAnswerError
from benchmarks.streaming.dataset import key_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from benchmarks.streaming.dataset import Dataset

    Numbers = npt.NDArray[np.int64]

_MOST_COUNT = 1 << 40


@dataclass(frozen=True)
class Answers:
    """Answers as they came: key number, count and total of each."""

    numbers: array[int] = field(default_factory=lambda: array("q"))
    counts: array[int] = field(default_factory=lambda: array("q"))
    totals: array[int] = field(default_factory=lambda: array("q"))

    def keep(self, number: int, count: int, total: int) -> None:
        """Adds one."""
        self.numbers.append(number)
        self.counts.append(count)
        self.totals.append(total)


class History:
    """Counts and totals of every key after each number of batches, from none on.

    The supply's batches repeat a dataset's, so a whole cycle adds the same each time.
    """

    def __init__(self, counts: Numbers, totals: Numbers) -> None:
        """Rows are what each batch of a cycle adds, by key."""
        self._counts = _sums_from_zero(counts)
        self._totals = _sums_from_zero(totals)

    @classmethod
    def of(cls, dataset: Dataset) -> Self:
        """The history of a supply from a dataset."""
        additions = [dataset.additions(batch) for batch in range(dataset.batches)]
        return cls(
            np.stack([each.counts for each in additions]),
            np.stack([each.sums for each in additions]),
        )

    def order(self) -> list[int]:
        """All key numbers, shuffled: what a closed loop asks for."""
        numbers = list(range(self._counts.shape[1]))
        random.Random(11).shuffle(numbers)
        return numbers

    def after(self, batches: int) -> tuple[Numbers, Numbers]:
        """Counts and totals by key after so many batches."""
        cycles, rest = divmod(batches, len(self._counts) - 1)
        return (
            cycles * self._counts[-1] + self._counts[rest],
            cycles * self._totals[-1] + self._totals[rest],
        )

    def batches_of(self, answers: Answers, most: int) -> Numbers:
        """After how many batches each answer was true, of `most` that were there.

        Raises `WrongAnswerError` for one that never was: a sum of half a batch, another key's.
        """
        states = [self.after(batches) for batches in range(most + 1)]
        keys = len(states[0][0])
        counts = np.stack([state[0] for state in states], axis=1)
        totals = np.stack([state[1] for state in states], axis=1)
        # By key, then by count, which never falls: one ascending line of all states.
        line = (counts + np.arange(keys)[:, None] * _MOST_COUNT).ravel()
        asked = np.asarray(answers.numbers) * _MOST_COUNT + np.asarray(answers.counts)
        places = np.minimum(np.searchsorted(line, asked), len(line) - 1)
        right = (line[places] == asked) & (totals.ravel()[places] == np.asarray(answers.totals))
        if not right.all():
            wrong = int(np.flatnonzero(~right)[0])
            number = answers.numbers[wrong]
            raise WrongAnswerError(
                f"{len(right) - int(right.sum())} of {len(right)} answers are sums of no whole "
                f"batches; key {number} was answered with count {answers.counts[wrong]}, total "
                f"{answers.totals[wrong]}"
            )
        found: Numbers = places % (most + 1)
        return found

    def check_end(self, found: Sequence[tuple[int, int] | None], batches: int) -> None:
        """Raises `WrongAnswerError` unless every key is as after all batches."""
        counts, totals = self.after(batches)
        wanted = list(zip(counts.tolist(), totals.tolist(), strict=True))
        wrong = [n for n, each in enumerate(zip(found, wanted, strict=True)) if each[0] != each[1]]
        if wrong:
            first = wrong[0]
            raise WrongAnswerError(
                f"{len(wrong)} of {len(wanted)} keys are wrong after {batches} batches: "
                f"{key_names(len(wanted))[first]} is {found[first]}, should be {wanted[first]}"
            )


def _sums_from_zero(additions: Numbers) -> Numbers:
    return np.concatenate([np.zeros_like(additions[:1]), np.cumsum(additions, axis=0)])
