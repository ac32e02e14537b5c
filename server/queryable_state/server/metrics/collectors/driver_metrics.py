"""Metrics of the driver: its jobs, their checkpoints, and the leases of the state servers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from queryable_state.server.metrics.families import counter, gauge, histogram
from queryable_state.server.metrics.state_names import JOB_LABELS
from queryable_state.v1 import registration_pb2, status_pb2

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from prometheus_client import Metric

    from queryable_state.server.coordinator.batches.catalog import Catalog
    from queryable_state.server.coordinator.checkpoints.history import CheckpointHistory
    from queryable_state.server.coordinator.status.job_status import JobStatus
    from queryable_state.server.coordinator.status.server_list import ServerList

    Job = tuple[Sequence[str], status_pb2.JobDescription]
    Number = Callable[[status_pb2.JobDescription], float]

_HEALTHS = [name for name, number in registration_pb2.JobInfo.Health.items() if number]
_LEASES = [name for name, number in status_pb2.ServerStatus.Lease.items() if number]
_SEVERITIES = [name for name, number in status_pb2.Finding.Severity.items() if number]


class DriverMetrics:
    """Prometheus collector of the coordinator's job status: findings, rates, checkpoints."""

    def __init__(
        self,
        catalog: Catalog,
        status: JobStatus,
        servers: ServerList,
        checkpoints: CheckpointHistory,
    ) -> None:
        self._catalog = catalog
        self._status = status
        self._servers = servers
        self._checkpoints = checkpoints

    def collect(self) -> Iterator[Metric]:
        """Yields the families."""
        jobs = [
            (
                (job.job_id, job.name),
                self._status.describe(status_pb2.DescribeJobRequest(job=job.job_id)),
            )
            for job in self._catalog.list_jobs()
        ]
        yield from self._jobs(jobs)
        yield from self._snapshots(jobs)
        yield from self._leases()

    def _jobs(self, jobs: Sequence[Job]) -> Iterator[Metric]:
        yield gauge(
            "job_health",
            "1 for the health that the job has now, 0 for the others.",
            (*JOB_LABELS, "health"),
            [
                ((*labels, name), float(registration_pb2.JobInfo.Health.Value(name) == found))
                for labels, job in jobs
                for found in (job.info.health,)
                for name in _HEALTHS
            ],
        )
        yield gauge(
            "job_findings",
            "Things that need attention, by severity; `queryable-state status` names them.",
            (*JOB_LABELS, "severity"),
            [
                ((*labels, name), sum(each.severity == number for each in job.findings))
                for labels, job in jobs
                for name in _SEVERITIES
                for number in (status_pb2.Finding.Severity.Value(name),)
            ],
        )
        yield gauge(
            "job_findings_by_code",
            "Things that need attention, by their code in docs/status.md; no series: none.",
            (*JOB_LABELS, "code"),
            [
                ((*labels, code), number)
                for labels, job in jobs
                for code, number in Counter(each.code for each in job.findings).items()
            ],
        )
        yield counter(
            "job_restarts",
            "Runs after the first one that this driver has seen.",
            JOB_LABELS,
            _numbers(jobs, lambda job: job.restarts),
        )
        yield gauge(
            "job_committed_batch",
            "Newest committed batch; -1: none.",
            JOB_LABELS,
            _numbers(jobs, lambda job: job.info.committed_batch),
        )
        for name, text, number in _RATES:
            yield gauge(name, text, JOB_LABELS, _numbers(jobs, number))
        for name, text, time_ms in _TIMES:
            # 0: never.
            times = [(labels, time_ms(job)) for labels, job in jobs]
            yield gauge(
                name, text, JOB_LABELS, [(labels, at / 1000) for labels, at in times if at > 0]
            )

        yield from _sources(jobs)

    def _snapshots(self, jobs: Sequence[Job]) -> Iterator[Metric]:
        labelled = [
            (labels, self._checkpoints.totals(bytes.fromhex(labels[0]))) for labels, _ in jobs
        ]
        yield counter(
            "checkpoints",
            "Attempts at checkpoints and savepoints in this driver, by outcome; declined: the job "
            "could not be written as a whole, and the next batch tries again.",
            (*JOB_LABELS, "kind", "outcome"),
            [
                ((*labels, kind, outcome), number)
                for labels, total in labelled
                for (kind, outcome), number in total.attempts.copy().items()
            ],
        )
        yield histogram(
            "checkpoint_duration_seconds",
            "Duration of completed checkpoints and savepoints.",
            JOB_LABELS,
            [(labels, total.durations) for labels, total in labelled],
        )
        yield counter(
            "checkpoint_written_bytes",
            "Bytes written for completed checkpoints and savepoints.",
            JOB_LABELS,
            [(labels, total.new_bytes) for labels, total in labelled],
        )
        yield gauge(
            "checkpoint_failures_in_a_row",
            "Failed checkpoints since the last completed one.",
            JOB_LABELS,
            _numbers(jobs, lambda job: job.checkpoints.failures_in_a_row),
        )
        durable = [(labels, job) for labels, job in jobs if job.checkpoints.durable]
        yield gauge(
            "checkpoint_interval_seconds",
            "Configured time from one checkpoint to the next, of jobs that keep durable state.",
            JOB_LABELS,
            _numbers(durable, lambda job: job.checkpoints.interval_ms / 1000),
        )
        completed = [
            (labels, job) for labels, job in jobs if job.checkpoints.HasField("last_completed")
        ]
        yield gauge(
            "last_checkpoint_timestamp_seconds",
            "Unix time at which the newest completed checkpoint began.",
            JOB_LABELS,
            _numbers(completed, lambda job: job.checkpoints.last_completed.at_ms / 1000),
        )
        yield gauge(
            "last_checkpoint_bytes",
            "Size of the newest completed checkpoint, with the files that it shares with others.",
            JOB_LABELS,
            _numbers(completed, lambda job: job.checkpoints.last_completed.bytes),
        )

    def _leases(self) -> Iterator[Metric]:
        servers = self._servers.list_servers(status_pb2.ListServersRequest()).servers
        leases = [status_pb2.ServerStatus.Lease.Name(server.lease) for server in servers]
        yield gauge(
            "servers",
            "State servers by state of their lease.",
            ("lease",),
            [((name,), leases.count(name)) for name in _LEASES],
        )
        yield gauge(
            "server_key_groups",
            "Key groups that a server owns, one of each operator.",
            ("server_id",),
            [((server.server_id,), server.key_groups) for server in servers],
        )
        yield gauge(
            "server_renewed_ago_seconds",
            "Time since a server renewed its lease.",
            ("server_id",),
            [((server.server_id,), server.renewed_ago_ms / 1000) for server in servers],
        )


_RATES: tuple[tuple[str, str, Number], ...] = (
    ("job_batch_rows", "Rows of the newest batch.", lambda job: job.rates.rows),
    (
        "job_input_rows_per_second",
        "Rows that arrive a second, as Spark reports them.",
        lambda job: job.rates.input_rows_per_s,
    ),
    (
        "job_processed_rows_per_second",
        "Rows that the newest batch processed a second, as Spark reports them.",
        lambda job: job.rates.processed_rows_per_s,
    ),
    (
        "job_batch_duration_seconds",
        "Duration of the newest batch, from its trigger to its end.",
        lambda job: job.last_batch.batch_ms / 1000,
    ),
    (
        "job_commit_duration_seconds",
        "Time from the newest commit by Spark to the answers of all state servers.",
        lambda job: job.last_batch.commit_ms / 1000,
    ),
    (
        "job_restores",
        "Subtasks whose stored state is being loaded now.",
        lambda job: len(job.restores),
    ),
)

_TIMES: tuple[tuple[str, str, Number], ...] = (
    (
        "job_batch_end_timestamp_seconds",
        "Unix time of the end of the newest batch that Spark has reported.",
        lambda job: job.last_batch.ended_at_ms,
    ),
    (
        "job_batch_begin_timestamp_seconds",
        "Unix time at which the batch in flight began.",
        lambda job: job.last_batch.running_since_ms,
    ),
    (
        "job_watermark_timestamp_seconds",
        "Watermark of the newest batch, in event time, as Unix time.",
        lambda job: job.watermark.watermark_ms,
    ),
    (
        "job_watermark_moved_timestamp_seconds",
        "Unix time at which the watermark last moved.",
        lambda job: job.watermark.moved_at_ms,
    ),
    (
        "job_last_error_timestamp_seconds",
        "Unix time of the newest error of a run.",
        lambda job: job.last_error.at_ms,
    ),
)


def _sources(jobs: Sequence[Job]) -> Iterator[Metric]:
    sources = [
        ((*labels, str(position)), source)
        for labels, job in jobs
        for position, source in enumerate(job.sources)
    ]
    yield gauge(
        "job_source_backlog",
        "What waited in a source after the newest batch, in rows, files (at least so many) or "
        "bytes; only of sources that tell it.",
        (*JOB_LABELS, "source", "unit"),
        [
            ((*labels, source.backlog_unit), source.backlog)
            for labels, source in sources
            if source.backlog_unit
        ],
    )
    yield gauge(
        "job_source_rows_timestamp_seconds",
        "Unix time of the newest batch with rows of a source.",
        (*JOB_LABELS, "source"),
        [
            (labels, source.last_rows_at_ms / 1000)
            for labels, source in sources
            if source.last_rows_at_ms
        ],
    )


def _numbers(jobs: Iterable[Job], number: Number) -> list[tuple[Sequence[str], float]]:
    return [(labels, number(job)) for labels, job in jobs]
