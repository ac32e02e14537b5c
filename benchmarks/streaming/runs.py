"""One run of a variant in a process of its own, with the check of its final state."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from benchmarks.child_process import run_child

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from benchmarks.streaming.dataset import Dataset
    from benchmarks.streaming.workloads import Variant

_CHECKED_KEYS = 20_000


@dataclass(frozen=True)
class VariantRun:
    """One process of one variant."""

    rows_per_second: list[float]
    """One value per warm batch."""
    batch_ms: list[int]
    """Trigger durations of all batches, in order."""


class WrongTotalsError(Exception):
    """The final state of a variant differs from the sums of the rows."""


def run_variant(
    variant: Variant,
    dataset: Dataset,
    folder: Path,
    *,
    warm_up: int,
    conf: Mapping[str, str] = MappingProxyType({}),
) -> VariantRun:
    """Runs a variant on its share of the data, with the Spark settings of `conf`.

    Creates `folder` and removes it.
    """
    batches = variant.batches(dataset.batches)
    # Of a million keys only a part is checked.
    step = -(-dataset.keys // _CHECKED_KEYS)
    folder.mkdir()
    try:
        data = dataset.first(batches, folder / "data")
        result = _in_own_process(variant, data, folder / "work", (dataset.keys, step), conf)
        _check(variant, dataset, dataset.final_rows(batches, step), result["state"])
        measured = result["batches"][min(warm_up, batches // 2) :]
        if len(result["batches"]) != batches:
            raise WrongTotalsError(f"{variant.name} ran {len(result['batches'])} of {batches}")
        return VariantRun(
            rows_per_second=[batch["rows"] / batch["ms"] * 1000 for batch in measured],
            batch_ms=[batch["ms"] for batch in result["batches"]],
        )
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _in_own_process(
    variant: Variant,
    data: Path,
    work: Path,
    keys_and_step: tuple[int, int],
    conf: Mapping[str, str],
) -> dict[str, Any]:
    work.mkdir()
    log = work / "stderr"
    keys, step = map(str, keys_and_step)
    arguments = ["--data", str(data), "--work", str(work), "--keys", keys, "--step", step]
    for name, value in conf.items():
        arguments += ["--conf", f"{name}={value}"]
    with log.open("w") as stderr:
        code, output = run_child(
            [sys.executable, "-m", "benchmarks.streaming.variant", variant.name, *arguments],
            stderr=stderr,
        )
    if code:
        tail = log.read_text()[-4000:]
        raise RuntimeError(f"{variant.name} ended with {code}:\n{tail}")
    result: dict[str, Any] = json.loads(output.splitlines()[-1])
    return result


def _check(
    variant: Variant,
    dataset: Dataset,
    truth: Mapping[str, tuple[int, ...]],
    state: Mapping[str, list[int]],
) -> None:
    places = [dataset.columns.index(column) for column in variant.columns]
    wanted_of = {key: tuple(row[place] for place in places) for key, row in truth.items()}
    wrong = {
        key: (state.get(key), wanted)
        for key, wanted in wanted_of.items()
        if tuple(state.get(key) or ()) != wanted
    }
    if wrong or len(state) != len(truth):
        key, (found, wanted) = next(iter(wrong.items()), ("", ([], ())))
        raise WrongTotalsError(
            f"{variant.name}: {len(wrong)} of {len(truth)} keys are wrong, "
            f"{len(state)} have a state; "
            f"{key!r} is {found}, should be {wanted}"
        )
