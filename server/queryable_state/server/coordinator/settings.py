"""Settings of the coordinator in the driver."""

from __future__ import annotations

from dataclasses import dataclass, field

from queryable_state.server.config.setting import DAY_MS, DAY_S, HOUR_MS, setting
from queryable_state.server.config.settings_group import SettingsGroup
from queryable_state.server.security.tls_settings import TlsSettings
from queryable_state.server.serving.listen_settings import (
    COORDINATOR_PORTS,
    host_setting,
    ports_setting,
)

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


@dataclass(frozen=True, kw_only=True)
class CoordinatorSettings(BatchSettings):
    """Settings of the coordinator in the driver."""

    secret: str = setting("", secret=True)
    """The job's secret, by which every call is signed; empty: a random one."""

    application: str = ""
    """Id of the application, for the endpoint files."""

    endpoint_files: bool = True
    """Write where the coordinator listens, with the secret, into the state roots of jobs."""

    host: str = host_setting("127.0.0.1")
    """Address to listen on."""

    advertised_host: str = ""
    """Name or address at which others reach the coordinator; empty: `host`."""

    ports: str = ports_setting(COORDINATOR_PORTS)
    """Port, range or list; a 0 in it: any free port."""

    tls: TlsSettings = field(default_factory=TlsSettings)

    stop_timeout_s: float = setting(10.0, least=0, most=DAY_S)
    """How long state servers may take to drain when the coordinator stops."""

    workers: int = setting(64, least=2, most=10_000)
    """Threads that answer calls; three quarters of them may wait."""
