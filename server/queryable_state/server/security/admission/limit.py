"""Limits of the access file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from queryable_state.server.security.access.grants import JobPattern, NamePattern, StateName

RATES = ("queries_per_s", "keys_per_s", "bytes_per_s", "scans")
"""Fields of a limit with a number; None: not limited."""


@dataclass(frozen=True, kw_only=True)
class Limit:
    """One entry `limits` of the access file. Each server and proxy counts by itself.

    With `callers`, each of these callers is counted by itself, else all callers together. With
    `states`, each of these states is counted by itself, else all states together.
    """

    callers: NamePattern | None = None
    """Unlike in a grant, a pattern with `*` is also for callers without a token."""
    jobs: JobPattern
    states: NamePattern | None = None
    queries_per_s: float | None = None
    """Queries a second, and as many at once; scans count, too."""
    keys_per_s: float | None = None
    """Keys of look-ups a second, and as many at once."""
    bytes_per_s: float | None = None
    """Bytes of answers a second, and as many at once."""
    scans: float | None = None
    """Scans at one time."""

    def applies_to(self, caller: str, name: StateName) -> bool:
        """True if queries of the caller to the state are counted."""
        if self.callers is not None and not self.callers.matches(caller):
            return False
        return self.states is None or (
            self.states.matches(name.state) and self.jobs.matches_job(name.job_name, name.job_id)
        )
