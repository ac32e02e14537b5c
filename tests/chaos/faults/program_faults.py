"""A program that comes back with other names than its stored state has."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from tests.chaos.checks.checker import Kind, Violation
from tests.chaos.jobs.functions import LEDGER, SUMS
from tests.chaos.jobs.workload import RECENT, SHARES, TOTALS
from tests.chaos.processes import StuckError, until

if TYPE_CHECKING:
    from tests.chaos.site import Site

REFUSED_S = 420.0
_RENAMES = {LEDGER: "operator", SUMS: "operator", TOTALS: "state", RECENT: "state", SHARES: "state"}
_REFUSAL = "would start empty"


def rename_operator(site: Site) -> str:
    """kill -9 of the driver; the program comes back with another uid or state name.

    It must end, and say what of the stored state it does not claim. Then it is started as before.
    """
    old = site.chance.choice(list(_RENAMES))
    new = f"{old}_renamed"
    site.driver.kill(python=True, jvm=True)
    committed = site.committed()
    site.driver.start("--rename", f"{old}={new}")
    began = time.monotonic()
    try:
        until(site.driver.has_ended, REFUSED_S, "the renamed program goes on")
        problem = problem_of(site.driver.log.read_text(errors="replace"), old, new)
    except StuckError as stuck:
        problem = str(stuck)
    seconds = time.monotonic() - began
    if site.committed() > committed:
        problem = f"it committed batch {site.committed()}, the newest one was {committed}"
    if problem:
        text = f"{_RENAMES[old]} {old!r} became {new!r}: {problem} (see {site.driver.log})"
        site.violations.append(Violation(Kind.NOT_REFUSED, text))
        site.driver.kill(python=True, jvm=True)
    site.driver.start()
    return f"{_RENAMES[old]} {old!r} became {new!r}, ended after {seconds:.1f} s"


def problem_of(log: str, old: str, new: str) -> str:
    """What is missing in the refusal of a program; empty: nothing."""
    lines = [line for line in log.splitlines() if _REFUSAL in line]
    if not lines:
        return "its log has no such refusal"
    if not any(repr(old) in line and repr(new) in line for line in lines):
        return f"its refusal does not name {old!r} and {new!r}: {lines[-1][:300]}"
    return ""
