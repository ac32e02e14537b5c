"""Metrics of the state that a state server owns."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from queryable_state.server.metrics.families import counter, gauge, histogram
from queryable_state.server.metrics.state_names import JOB_LABELS, STATE_LABELS, StateLabels

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from queryable_state.server.state_server.backend_parts import BackendParts
    from queryable_state.server.state_server.base.lease import Lease
    from queryable_state.server.state_server.queries.state_reader import StateReader
    from queryable_state.server.state_server.stores.job_stores import JobStores
    from queryable_state.server.state_server.stores.store_table import StoreTable


class OwnerMetrics:
    """Collector of reads, batches, restores and stores of one state server."""

    def __init__(
        self, table: StoreTable, lease: Lease, reader: StateReader, parts: BackendParts
    ) -> None:
        self._table = table
        self._lease = lease
        self._reader = reader
        self._parts = parts

    def collect(self) -> Iterator[Metric]:
        """Yields the families."""
        yield from self._reads()
        yield from self._batches()
        yield from self._restores()
        yield from self._jobs()

    def _reads(self) -> Iterator[Metric]:
        misses: Counter[StateLabels] = Counter()
        failed: Counter[tuple[str, ...]] = Counter()
        for route in self._table.routes():
            labels, reads = StateLabels.of(route.registration), route.reads
            misses[labels] += reads.cache_misses
            for reason, number in reads.failed.copy().items():
                failed[*labels, reason] += number
        for reason, number in self._reader.failed.copy().items():
            failed[*StateLabels(), reason] += number
        yield counter(
            "cache_misses",
            "Keys of point reads that were not cached and were read from the store.",
            STATE_LABELS,
            misses.items(),
        )
        yield counter(
            "read_failures",
            "Queries that the owner failed, as a whole or for some keys, by reason. A proxy "
            "retries some of them, such as NOT_OWNER. The labels of the state are empty if this "
            "server has no part of it.",
            (*STATE_LABELS, "reason"),
            failed.items(),
        )

    def _batches(self) -> Iterator[Metric]:
        calls = self._parts.service.calls
        yield histogram(
            "backend_call_duration_seconds",
            "Duration of the internal calls of tasks and the coordinator: begin, fetch, prepare, "
            "commit, snapshot and others; failed ones too.",
            ("call",),
            [((call,), durations) for call, durations in calls.durations.copy().items()],
        )
        yield counter(
            "backend_call_failures",
            "Internal calls that failed, by reason; tasks repeat some of them.",
            ("call", "reason"),
            calls.failed.copy().items(),
        )
        staged = overlays = 0
        for subtask in self._table.subtasks_now():
            staged += subtask.store.staged_bytes
            overlays += subtask.store.overlay_bytes
        yield gauge(
            "staged_bytes",
            "Bytes of changes that are prepared but not committed.",
            samples=[((), self._parts.staging.building_bytes + staged)],
        )
        yield gauge(
            "uncompacted_bytes",
            "Bytes of staged changes, and of committed ones that are not compacted into the store; "
            "with the changes that arrive they are limited by max_staged_bytes.",
            samples=[((), overlays)],
        )

    def _restores(self) -> Iterator[Metric]:
        counts = self._parts.restores
        yield histogram(
            "restore_duration_seconds",
            "Duration of the restores of subtasks.",
            (),
            [((), counts.durations)],
        )
        yield counter(
            "restore_failures", "Restores of subtasks that failed.", samples=[((), counts.failed)]
        )
        yield counter(
            "restored_bytes",
            "Bytes that restores read, by source: storage, or copies on the local disk.",
            ("source",),
            [(("storage",), counts.downloaded_bytes), (("local",), counts.reused_bytes)],
        )

    def _jobs(self) -> Iterator[Metric]:
        yield gauge(
            "lease_held",
            "1 while the server holds its lease; without it queries and tasks are refused.",
            samples=[((), float(self._lease.holds()))],
        )
        jobs = [(_labels(job), job) for job in self._table.jobs()]
        yield gauge(
            "subtasks",
            "Subtasks that the server owns.",
            JOB_LABELS,
            [(labels, len(job.subtasks)) for labels, job in jobs],
        )
        committed = [(labels, job.info) for labels, job in jobs if job.committed_version >= 0]
        yield gauge(
            "committed_batch",
            "Newest committed batch.",
            JOB_LABELS,
            [(labels, info.version) for labels, info in committed],
        )
        yield gauge(
            "commit_timestamp_seconds",
            "Unix time of the newest commit.",
            JOB_LABELS,
            [(labels, info.commit_time_ms / 1000) for labels, info in committed],
        )
        yield gauge(
            "watermark_timestamp_seconds",
            "Watermark of the newest commit as Unix time; none without a watermark.",
            JOB_LABELS,
            [(labels, info.watermark_ms / 1000) for labels, info in committed if info.watermark_ms],
        )


def _labels(job: JobStores) -> tuple[str, str]:
    for subtask in tuple(job.subtasks.values()):
        for registration in tuple(subtask.states.values()):
            return registration.job_id.hex(), registration.job_name
    return job.query_id.hex(), ""
