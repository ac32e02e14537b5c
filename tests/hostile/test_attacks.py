"""One hostile peer: others are answered in time, memory comes back, and the log stays readable."""

from __future__ import annotations

import re
import sys
import time
from typing import TYPE_CHECKING

import pytest
from tests.hostile.attacks import ATTACKS, CONTROL
from tests.hostile.conftest import SECONDS, busiest_second, settled_rss

if TYPE_CHECKING:
    from tests.hostile.conftest import Site

# Several attempts on a machine that others use.
pytestmark = [pytest.mark.hostile, pytest.mark.timeout(600 + 2 * SECONDS)]

WORST_MS = 250.0
MORE_MEMORY = 1.2
# What the first use of anything costs, once.
SMALL_BYTES = 10 * 1024 * 1024
# Of a machine that others use, too: a wait that the attack did not cause is seen once.
ATTEMPTS = 8
LONGEST_CONTROL_S = 10.0
# The longest wait of minutes says more about the machine than about the attack.
IS_LONG = SECONDS > 60


@pytest.fixture(scope="module")
def used(site: Site) -> Site:
    """Every kind of attack once, briefly: what is loaded and cached at first use is there."""
    for name in ATTACKS:
        site.attack(name, 0.01)
    time.sleep(2)
    return site


@pytest.mark.parametrize("name", list(ATTACKS))
def test_others_are_answered_and_nothing_is_left_behind(used: Site, name: str) -> None:
    before = {process.name: process.rss_bytes() for process in used.processes}
    logged = {process.name: process.log.stat().st_size for process in used.processes}
    waits: list[tuple[float, float]] = []
    answers: dict[str, int] = {}
    for _ in range(ATTEMPTS):
        used.seen()
        used.attack(CONTROL, min(SECONDS, LONGEST_CONTROL_S))
        control = used.seen()
        answers = used.attack(name, SECONDS)
        attacked = used.seen()
        problems = [error for seen in attacked.values() for error in seen["errors"]]
        assert not problems, problems[:3]
        assert all(seen["answers"] for seen in attacked.values())
        told = [answer for answer in answers if "tells too much" in answer]
        assert not told, told
        worst = max(seen["worst_ms"] for seen in attacked.values())
        without = max(seen["worst_ms"] for seen in control.values())
        waits.append((worst, without))
        if worst < WORST_MS + without or IS_LONG:
            break
    told_of = [f"{name}: worst answer, and without attack, ms: {waits}; {answers}"]
    left: dict[str, float] = {}
    texts: dict[str, str] = {}
    for process in used.processes:
        at_most = before[process.name] * MORE_MEMORY + SMALL_BYTES
        rss = settled_rss(process, at_most)
        told_of.append(f"  {process.name}: {before[process.name] >> 20} -> {rss >> 20} MiB")
        left[process.name] = rss - at_most
        with process.log.open("rb") as log:
            log.seek(logged[process.name])
            texts[process.name] = text = log.read().decode(errors="replace")
        told_of += [f"  {process.name}: {it}" for it in re.findall(r"loop_watchdog: (.*)", text)]
    sys.stdout.write("\n".join(told_of) + "\n")
    # A machine that keeps others waiting without the attack does so during it.
    assert IS_LONG or any(worst < WORST_MS + without for worst, without in waits), waits
    assert all(more <= 0 for more in left.values()), told_of
    for process in used.processes:
        text = texts[process.name]
        assert "Traceback" not in text, text[-2000:]
        times, line = busiest_second(text)
        assert times < 2, f"{process.name} logged {times} times in a second: {line}"
