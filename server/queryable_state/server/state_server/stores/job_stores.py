"""The stores of one job on this server, which commit together."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from queryable_state.internal.v1.checkpoint_pb2 import JobStorage, Timeline
from queryable_state.server.query.frames.answer_frames import info_field
from queryable_state.server.state_server.watches.change_history import DEFAULT_BYTES
from queryable_state.server.state_server.watches.job_watches import JobWatches
from queryable_state.server.storage.store import NOTHING_COMMITTED
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import PlacementError, Reason, RetryLaterError, SupersededError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.internal.v1 import backend_pb2
    from queryable_state.server.state_server.base.job_files import JobFiles
    from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask, SubtaskId
    from queryable_state.server.state_server.stores.record_cache import RecordCache
    from queryable_state.server.state_server.watches.change_history import BatchChanges
    from queryable_state.v1 import registration_pb2


_MOST_PARKED = 65_536


class WaitingQueries:
    """Waits for commits of one job. For the event loop only.

    A query that wakes up checks its condition again: besides the commit, a lost ownership or
    lease wakes it, too.
    """

    def __init__(self) -> None:
        self._versions: dict[asyncio.Future[None], int] = {}

    def __len__(self) -> int:
        return len(self._versions)

    async def park(self, version: int, timeout_s: float) -> None:
        """Waits for the commit of `version` or a later one, for `wake`, or for the timeout."""
        if len(self._versions) >= _MOST_PARKED:
            raise RetryLaterError(
                f"{len(self._versions)} queries wait for the next commit of this job, which is "
                "the limit: retry after it",
                reason=Reason.OVERLOADED,
                retry_after_ms=100,
            )
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._versions[woken] = version
        try:
            await asyncio.wait((woken,), timeout=timeout_s)
        finally:
            self._versions.pop(woken, None)

    def committed(self, version: int) -> None:
        """Wakes the queries that wait for a batch up to this one."""
        for woken, wanted in list(self._versions.items()):
            if wanted <= version:
                _wake(woken)

    def wake(self) -> None:
        """Wakes all queries."""
        for woken in list(self._versions):
            _wake(woken)


def _wake(woken: asyncio.Future[None]) -> None:
    if not woken.done():
        woken.set_result(None)


_REPORTS_KEPT = 4096
# More batches than stay uncompacted while servers reach the coordinator.
_INFOS_KEPT = 64


class OperatorStates(NamedTuple):
    """The states that an operator declared, and their registrations.

    Valid until the operator declares other states, which changes the registrations.
    """

    declared: tuple[bytes, ...]
    states: Sequence[registration_pb2.StateRegistration]


class JobStores:
    """The state of one Spark query on this server. For the event loop only.

    A commit flips every store in one turn of the loop, so no answer mixes two versions.
    """

    def __init__(
        self, query_id: bytes, server_id: str, *, history_bytes: int = DEFAULT_BYTES
    ) -> None:
        """`history_bytes`: bytes of the changes that it keeps for watches."""
        self.query_id = query_id
        self.run_epoch = 0
        self.subtasks: dict[SubtaskId, OwnedSubtask] = {}
        self.stable_version = NOTHING_COMMITTED
        self.held_versions: list[int] = []
        """Committed versions that snapshots hold: nothing above them is compacted."""
        self.settings = JobStorage()
        """Settings of the job's state."""
        self.timeline = Timeline()
        """Timeline of the versions; the id 0: not known."""
        self.files: JobFiles | None = None
        """Access to the job's durable copy; None: it keeps none."""
        self.registrations: dict[str, OperatorStates] = {}
        """The newest declaration of each operator, by uid."""
        self.info = query_pb2.ReadInfo(
            version=NOTHING_COMMITTED, role=query_pb2.OWNER, server_id=server_id
        )
        self.records: dict[int, RecordCache] = {}
        """Cached records of the committed version, by state. Adding or removing a store of a
        state clears its cache."""
        self.waiting = WaitingQueries()
        """Queries that wait for the next commit."""
        self.watches = JobWatches()
        self._history_bytes = history_bytes
        self._timestamps: deque[tuple[int, int]] = deque(maxlen=_INFOS_KEPT)
        self._infos: deque[query_pb2.ReadInfo] = deque((self.info,), maxlen=_INFOS_KEPT)
        # Bounded, because a coordinator that never asks for reports needs no old ones.
        self._reports: deque[backend_pb2.SealedSubtask] = deque(maxlen=_REPORTS_KEPT)

    @property
    def info(self) -> query_pb2.ReadInfo:
        """The newest commit, as answers carry it. Set it after a change."""
        return self._info

    @info.setter
    def info(self, info: query_pb2.ReadInfo) -> None:
        self._info = info
        self.info_field = info_field(info)
        """`info`, serialized as a field of an answer."""

    @property
    def committed_version(self) -> int:
        """Newest committed batch; -1 before the first."""
        return self.info.version

    def add(self, subtask: OwnedSubtask) -> None:
        """Adds a store, at the job's committed version."""
        self.subtasks[subtask.id] = subtask
        self._commit(subtask, self.committed_version, self.info.commit_time_ms)

    def superseded_by(self, opened: OwnedSubtask) -> list[OwnedSubtask]:
        """Returns the operator's subtasks at another parallelism, which no task writes any more.

        Stores open in any order; the placement version tells which parallelism is newer. Raises
        `PlacementError` if that is not the parallelism of `opened`.
        """
        others = [
            subtask
            for subtask in self.subtasks.values()
            if subtask.id.operator_uid == opened.id.operator_uid
            and subtask.id.parallelism != opened.id.parallelism
        ]
        newest = max(others, key=lambda subtask: subtask.placement_version, default=opened)
        if newest.placement_version > opened.placement_version:
            raise PlacementError(
                f"{opened.id} is not opened: its operator now runs at parallelism "
                f"{newest.id.parallelism}; locate its owner again",
                placement_version=newest.placement_version,
            )
        return others

    def use(self, timeline: Timeline) -> None:
        """Sets the timeline of the versions, which is the same for all stores of the job."""
        self.timeline = timeline
        info = self.info
        info.timeline = timeline.id
        self.info = info

    def commit(self, version: int, commit_time_ms: int, watermark_ms: int) -> bool:
        """Commits every batch up to `version`; returns False if they were committed already."""
        if version <= self.committed_version:
            return False
        info = query_pb2.ReadInfo()
        info.CopyFrom(self.info)
        info.version = version
        info.commit_time_ms = commit_time_ms
        info.watermark_ms = watermark_ms
        changes = []
        for subtask in self.subtasks.values():
            visible = self._commit(subtask, version, commit_time_ms)
            sealed = subtask.forget_up_to(version)
            subtask.plan_clean_up(
                None if visible is None else visible.overlay,
                sum(each.row_count for each in sealed),
            )
            if visible is not None:
                changes.append((subtask, visible))
                for state_id, overlay in visible.overlay.states.items():
                    if state_id in self.records:
                        self.records[state_id].wrote(overlay)
            self._reports.extend(sealed)
        self.info = info
        self._infos.append(info)
        if self.waiting:
            self.waiting.committed(version)
        if self.watches:
            self.watches.committed(version, changes)
        return True

    def _commit(
        self, subtask: OwnedSubtask, version: int, commit_time_ms: int
    ) -> BatchChanges | None:
        """Commits a store; returns the changes that became visible, None without any."""
        store = subtask.store
        staged = store.staged_version
        visible = store.commit(version)
        if visible is None or staged is None:
            return None
        most_bytes = self._history_bytes // len(self.subtasks)
        return subtask.history.add(staged, commit_time_ms, visible, most_bytes)

    def begin_batch(self, batch_id: int, timestamp_ms: int) -> None:
        """Remembers the timestamp of a batch."""
        if (batch_id, timestamp_ms) not in self._timestamps:
            self._timestamps.append((batch_id, timestamp_ms))

    def timestamp_at(self, version: int) -> int | None:
        """The timestamp of the newest known batch up to `version`; None: no batch is known."""
        known = [each for each in self._timestamps if each[0] <= version]
        return max(known)[1] if known else None

    def info_at(self, version: int) -> query_pb2.ReadInfo:
        """Returns the info of an answer at an older version.

        Its times are those of the newest known commit up to that version, so that the answer
        never looks fresher than it is.
        """
        info = query_pb2.ReadInfo()
        info.CopyFrom(self.info)
        info.version = version
        known = next((each for each in reversed(self._infos) if each.version <= version), None)
        info.commit_time_ms = known.commit_time_ms if known else 0
        info.watermark_ms = known.watermark_ms if known else 0
        return info

    def sealed_up_to(self, version: int) -> list[backend_pb2.SealedSubtask]:
        """Returns the seals of uncommitted batches up to a version."""
        return [
            report for subtask in self.subtasks.values() for report in subtask.sealed_up_to(version)
        ]

    def take_reports(self) -> list[backend_pb2.SealedSubtask]:
        """Returns the seals of the batches that were committed since the last call."""
        reports = list(self._reports)
        self._reports.clear()
        return reports

    def check_epoch(self, run_epoch: int) -> None:
        """Raises `SupersededError` (FENCED) for an older run's epoch; records a newer one."""
        if run_epoch < self.run_epoch:
            raise SupersededError(
                f"job {self.query_id.hex()} runs at epoch {self.run_epoch}; this attempt is of "
                f"epoch {run_epoch}, an older run: it must stop",
                reason=Reason.FENCED,
            )
        self.run_epoch = run_epoch

    def check_uncommitted(self, batch_id: int) -> None:
        """Raises `SupersededError` (ALREADY_COMMITTED) if the batch is committed."""
        if batch_id <= self.committed_version:
            raise SupersededError(
                f"batch {batch_id} of job {self.query_id.hex()} is committed (the newest is "
                f"{self.committed_version}): its writes are applied, stop this attempt",
                reason=Reason.ALREADY_COMMITTED,
            )
