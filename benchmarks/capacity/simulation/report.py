"""Table and JSON of the simulation."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from benchmarks.figures import table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.capacity.simulation.fleet import Phase


def report(
    phases: Sequence[Phase], servers: int, subtasks: int, key_groups: int, rss_bytes: int
) -> str:
    """The table."""
    rows = [
        [
            phase.title,
            f"{phase.seconds:.2f}",
            f"{phase.coordinator_cpu_s:.2f}",
            f"{phase.calls:,}" if phase.calls else "",
            f"{phase.coordinator_cpu_s / phase.calls * 1e6:.0f}" if phase.calls else "",
            f"{phase.wire_bytes / phase.calls:,.0f}" if phase.wire_bytes else "",
        ]
        for phase in phases
    ]
    header = ["step", "s", "coordinator CPU s", "calls", "CPU us a call", "bytes a call"]
    return (
        f"{servers:,} servers, {subtasks:,} subtasks, {key_groups:,} key groups; the coordinator "
        f"has {rss_bytes / 2**20:.0f} MiB at the end\n\n" + table(header, rows)
    )


def to_json(phases: Sequence[Phase]) -> list[dict[str, object]]:
    """One flat object per step."""
    return [asdict(phase) for phase in phases]
