"""What came of a round."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from tests.chaos.checks.checker import Violation
    from tests.chaos.checks.reads import Read
    from tests.chaos.plan import RoundPlan


@dataclass(kw_only=True)
class StrikeResult:
    """One fault that struck."""

    fault: str
    what: str
    """On what, and how."""
    began: float
    """Seconds since the epoch."""
    ended: float
    batch: int
    """Newest committed batch before it."""
    commit_s: float | None = None
    """From its begin to the commit of a batch that began after it; None: there was none."""
    answer_s: float | None = None
    """From its begin until every key was answered at a newer batch; None: not by the reader."""


@dataclass(kw_only=True)
class RoundResult:
    """One round, judged."""

    plan: RoundPlan
    folder: Path
    strikes: list[StrikeResult] = field(default_factory=list)
    violations: list[Violation] = field(default_factory=list)
    batches: int = 0
    answers: int = 0
    refusals: int = 0
    driver_starts: int = 0
    driver_failures: list[str] = field(default_factory=list)
    """How lives of the driver ended that the round did not end."""
    checkpoints: int = 0
    """Number of the newest complete checkpoint."""
    first_commit_s: float = 0.0
    """From the start of the driver."""
    seconds: float = 0.0

    @property
    def passed(self) -> bool:
        """Whether every promise was kept."""
        return not self.violations


def note_recoveries(
    strikes: Sequence[StrikeResult], reads: Sequence[Read], committed_at: Mapping[int, float]
) -> None:
    """Fills in when batches were committed and keys answered again.

    The batch in flight at a fault may still be committed unharmed: the second one counts.
    """
    for strike in strikes:
        commits = [at for batch, at in committed_at.items() if batch >= strike.batch + 2]
        after = min((at for at in commits if at >= strike.began), default=None)
        strike.commit_s = None if after is None else after - strike.began
        answered: dict[tuple[str, str], float] = {}
        keys = set()
        for read in reads:
            keys.add((read.state, read.key))
            if read.refused or read.started < strike.began:
                continue
            # Without a value there is no version to go by; such an answer counts as it is.
            if read.version is None or read.version > strike.batch:
                answered.setdefault((read.state, read.key), read.ended)
        if answered and len(answered) == len(keys):
            strike.answer_s = max(answered.values()) - strike.began
