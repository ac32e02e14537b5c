"""Settings of leases, batches and ended jobs."""

from __future__ import annotations

from dataclasses import dataclass

from queryable_state.server.config.setting import DAY_MS, HOUR_MS, setting
from queryable_state.server.config.settings_group import SettingsGroup

# Heartbeats in the time of a lease: two may be lost before it expires.
LEASE_RENEWALS = 3


@dataclass(frozen=True, kw_only=True)
class BatchSettings(SettingsGroup):
    """Leases of state servers, and rules of batches and jobs."""

    lease_ms: int = setting(5_000, least=300, most=HOUR_MS)
    """How long a state server may act as owner without a renewed lease; it renews it three times
    in this time."""

    lease_margin_ms: int = setting(1_000, least=100, most=HOUR_MS)
    """Time the coordinator waits after a lease expires before it assigns the subtasks to another
    owner; at most `lease_ms`. It covers differences of the clocks of two machines."""

    strict: bool = True
    """True: stop a query that committed a batch which one of its operators missed, and withdraw the
    commit; False: log an error and continue without those records."""

    strict_determinism: bool = False
    """True: stop a query if a replayed batch has other input; False: log an error."""

    retained_finished_jobs: int = setting(10, least=0, most=10_000)
    """Ended jobs whose state is still served; beyond that, the jobs that ended first are dropped.
    """

    push_timeout_ms: int = setting(1_000, least=10, most=HOUR_MS)
    """How long a state server may take to acknowledge a commit before a heartbeat repeats it."""

    reopen_after_ms: int = setting(5_000, least=10, most=DAY_MS)
    """Time without a batch after which other servers restore the subtasks of a lost one."""

    manifest_timeout_ms: int = setting(60_000, least=100, most=DAY_MS)
    """How long writing a manifest is retried before the job fails."""

    @property
    def heartbeat_s(self) -> float:
        """Seconds between two renewals of a lease."""
        return self.lease_ms / LEASE_RENEWALS / 1000

    def check_relations(self) -> None:
        super().check_relations()
        self.require(
            self.lease_margin_ms <= self.lease_ms,
            ("lease_margin_ms", "lease_ms"),
            "the margin must not be longer than the lease; lower the margin or raise the lease",
        )
