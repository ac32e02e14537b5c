"""Rounds for people and for `docs/reliability.md`."""

from __future__ import annotations

import dataclasses
import statistics
from collections import defaultdict
from typing import TYPE_CHECKING

from benchmarks.figures import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.chaos.checks.checker import Kind, Violation
    from tests.chaos.result import RoundResult, StrikeResult

_SHOWN = 3


def lines_of(result: RoundResult) -> list[str]:
    """One round."""
    lines = [
        f"  {strike.fault}: committed again after {_seconds(strike.commit_s)}, every key "
        f"answered after {_seconds(strike.answer_s)}"
        for strike in result.strikes
    ]
    lines += [f"  driver ended by itself: {failure}" for failure in result.driver_failures]
    lines.append(
        f"  {result.batches} batches, {result.checkpoints} checkpoints, {result.answers:,} answers "
        f"checked, {result.refusals:,} refusals, {result.driver_starts} starts of the driver, "
        f"{result.seconds:.0f} s"
    )
    by_kind: dict[Kind, list[Violation]] = defaultdict(list)
    for violation in result.violations:
        by_kind[violation.kind].append(violation)
    for kind, found in by_kind.items():
        lines.append(f"  WRONG, {len(found):,} times: {kind}")
        lines += [f"    {violation.what}" for violation in found[:_SHOWN]]
    return lines


def summary(results: Sequence[RoundResult]) -> str:
    """All rounds: what was shot at, how often, and how long it took to recover."""
    by_fault: dict[str, list[StrikeResult]] = defaultdict(list)
    for result in results:
        for strike in result.strikes:
            by_fault[strike.fault].append(strike)
    rows = [
        [
            fault,
            str(len(strikes)),
            _spread([strike.commit_s for strike in strikes]),
            _spread([strike.answer_s for strike in strikes]),
        ]
        for fault, strikes in sorted(by_fault.items())
    ]
    header = ["fault", "times", "batches again, s", "every key again, s"]
    failed = [str(result.plan.seed) for result in results if not result.passed]
    totals = (
        f"{len(results)} rounds, {sum(len(r.strikes) for r in results)} faults, "
        f"{sum(r.driver_starts for r in results)} starts of a driver, "
        f"{sum(r.batches for r in results):,} batches, "
        f"{sum(r.checkpoints for r in results):,} checkpoints, "
        f"{sum(r.answers for r in results):,} answers checked, "
        f"{sum(r.refusals for r in results):,} refusals"
    )
    verdict = "all passed" if not failed else f"FAILED with seeds {', '.join(failed)}"
    return "\n".join([totals, verdict, "", table(header, rows)])


def to_json(result: RoundResult) -> dict[str, object]:
    """All there is to know of a round."""
    return {
        **{
            name: value
            for name, value in vars(result).items()
            if name not in ("plan", "folder", "strikes", "violations")
        },
        "plan": dataclasses.asdict(result.plan),
        "strikes": [dataclasses.asdict(strike) for strike in result.strikes],
        "violations": [str(violation) for violation in result.violations],
    }


def _seconds(value: float | None) -> str:
    return "-" if value is None else f"{value:.1f} s"


def _spread(values: Sequence[float | None]) -> str:
    """Median and worst."""
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    return f"{statistics.median(known):.1f} (worst {max(known):.1f})"
