"""Runs variants in turn, each in a process of its own, and judges what they answer."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from benchmarks.streaming.dataset import Dataset, Totals


@dataclass(frozen=True)
class Variant:
    """One row of the table."""

    name: str
    """As `benchmarks.streaming.variant` knows it."""
    title: str
    """For people."""
    share: float
    """Share of the batches it gets: the slow ones would take minutes."""
    columns: tuple[str, ...]
    """What its state holds of `Totals`."""

    def batches(self, whole: int, warm_up: int) -> int:
        """The number of its batches: two at least to be measured."""
        return min(whole, max(int(whole * self.share), warm_up + 2))


ALL = ("counts", "sums", "maxima")
VARIANTS = (
    Variant("native", "Spark groupBy().agg: count, sum, max", 1.0, ALL),
    Variant("native-sums", "Spark groupBy().agg: two sums", 1.0, ALL[:2]),
    Variant("sums", "ours, built-in: two sums (vectorised)", 1.0, ALL[:2]),
    Variant("process-state", "ours, Python function, no output row", 1.0, ALL),
    Variant("process-row", "ours, Python function, a row for each row", 1.0, ALL),
    Variant("tws-row", "Spark transformWithState, rows", 0.5, ALL),
    Variant("tws-pandas", "Spark transformWithStateInPandas", 0.2, ALL),
)


@dataclass(frozen=True)
class VariantRun:
    """One process of one variant."""

    rows_per_second: list[float]
    """Of each warm batch."""
    batch_ms: list[int]
    """Of all batches, cold ones first."""


class WrongTotalsError(Exception):
    """A variant ended with another state than the rows add up to."""


def run_variant(
    variant: Variant,
    dataset: Dataset,
    folder: Path,
    *,
    warm_up: int,
    conf: Mapping[str, str] = MappingProxyType({}),
) -> VariantRun:
    """Runs a variant on its share of the data, with more of Spark's settings where given.

    `folder` is made and removed.
    """
    batches = variant.batches(dataset.batches, warm_up)
    folder.mkdir()
    try:
        data = dataset.first(batches, folder / "data")
        result = _in_own_process(variant, data, folder / "work", dataset.keys, conf)
        _check(variant, dataset.totals(batches), result["state"])
        measured = result["batches"][warm_up:]
        if len(result["batches"]) != batches:
            raise WrongTotalsError(f"{variant.name} ran {len(result['batches'])} of {batches}")
        return VariantRun(
            rows_per_second=[batch["rows"] / batch["ms"] * 1000 for batch in measured],
            batch_ms=[batch["ms"] for batch in result["batches"]],
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _in_own_process(
    variant: Variant, data: Path, work: Path, keys: int, conf: Mapping[str, str]
) -> dict[str, Any]:
    work.mkdir()
    log = work / "stderr"
    arguments = ["--data", str(data), "--work", str(work), "--keys", str(keys)]
    for name, value in conf.items():
        arguments += ["--conf", f"{name}={value}"]
    with log.open("w") as stderr:
        ended = subprocess.run(
            [sys.executable, "-m", "benchmarks.streaming.variant", variant.name, *arguments],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            check=False,
        )
    if ended.returncode:
        tail = log.read_text()[-4000:]
        raise RuntimeError(f"{variant.name} ended with {ended.returncode}:\n{tail}")
    result: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return result


def _check(variant: Variant, totals: Totals, state: Mapping[str, list[int]]) -> None:
    truth = totals.rows()
    width = len(variant.columns)
    wrong = {
        key: (state.get(key), row[:width])
        for key, row in truth.items()
        if tuple(state.get(key) or ()) != row[:width]
    }
    if wrong or len(state) != len(truth):
        key, (found, wanted) = next(iter(wrong.items()), ("", ([], ())))
        raise WrongTotalsError(
            f"{variant.name}: {len(wrong)} of {len(truth)} keys are wrong, {len(state)} are there; "
            f"{key!r} is {found}, should be {wanted}"
        )
