"""The stores of one job on this server, committing together."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from queryable_state.internal.v1.checkpoint_pb2 import JobStorage
from queryable_state.server.state_server.stores.waiting_queries import WaitingQueries
from queryable_state.server.storage.store import NOTHING_COMMITTED
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import PlacementError, Reason, SupersededError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.internal.v1 import backend_pb2
    from queryable_state.server.state_server.base.job_files import JobFiles
    from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask, SubtaskId
    from queryable_state.server.state_server.stores.record_cache import RecordCache
    from queryable_state.v1 import registration_pb2

_REPORTS_KEPT = 4096
# More batches than are ever kept unfolded where servers answer the coordinator.
_INFOS_KEPT = 64


class OperatorStates(NamedTuple):
    """What an operator declared, and its states as registered for that.

    Good until it declares something else: registering that changes what is registered.
    """

    declared: tuple[bytes, ...]
    states: Sequence[registration_pb2.StateRegistration]


class JobStores:
    """What this server holds of one Spark query. Event loop only.

    A commit flips every store in one turn of the loop, so that no answer sees two versions.
    """

    def __init__(self, query_id: bytes, server_id: str) -> None:
        self.query_id = query_id
        self.run_epoch = 0
        self.subtasks: dict[SubtaskId, OwnedSubtask] = {}
        self.stable_version = NOTHING_COMMITTED
        self.held_versions: list[int] = []
        """Committed versions above which nothing is folded now."""
        self.settings = JobStorage()
        """How its state is kept."""
        self.files: JobFiles | None = None
        """Its durable copy; None: it has none."""
        self.registrations: dict[str, OperatorStates] = {}
        """By operator uid: what was declared last."""
        self.info = query_pb2.ReadInfo(
            version=NOTHING_COMMITTED, role=query_pb2.OWNER, server_id=server_id
        )
        self.records: dict[int, RecordCache] = {}
        """What queries read of the committed version, by state; whoever adds or takes away a
        store of a state clears it."""
        self.waiting = WaitingQueries()
        """Queries that wait for a commit."""
        self._infos: deque[query_pb2.ReadInfo] = deque((self.info,), maxlen=_INFOS_KEPT)
        # Bounded: where the coordinator never asks, the oldest reports are of no more use.
        self._reports: deque[backend_pb2.SealedSubtask] = deque(maxlen=_REPORTS_KEPT)

    @property
    def committed_version(self) -> int:
        """Newest committed batch; -1 before the first."""
        return self.info.version

    def add(self, subtask: OwnedSubtask) -> None:
        """Takes a store; it joins at the job's committed version."""
        self.subtasks[subtask.id] = subtask
        subtask.store.commit(self.committed_version)

    def superseded_by(self, opened: OwnedSubtask) -> list[OwnedSubtask]:
        """What is here of the operator at another parallelism: nobody writes it any more.

        The placement tells which is newer, openings come in any order. PlacementError where it
        is not the one that was opened.
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
                f"{opened.id} is not opened: its operator runs at parallelism "
                f"{newest.id.parallelism} by now; locate it anew",
                placement_version=newest.placement_version,
            )
        return others

    def commit(self, version: int, commit_time_ms: int, watermark_ms: int) -> bool:
        """Makes every batch up to `version` committed; False where they were already."""
        if version <= self.committed_version:
            return False
        info = query_pb2.ReadInfo()
        info.CopyFrom(self.info)
        info.version = version
        info.commit_time_ms = commit_time_ms
        info.watermark_ms = watermark_ms
        for subtask in self.subtasks.values():
            visible = subtask.store.commit(version)
            if visible is not None:
                for state_id, changes in visible.states.items():
                    if state_id in self.records:
                        self.records[state_id].wrote(changes)
            self._reports.extend(subtask.forget_up_to(version))
        self.info = info
        self._infos.append(info)
        if self.waiting:
            self.waiting.committed(version)
        return True

    def info_at(self, version: int) -> query_pb2.ReadInfo:
        """What an answer as of an older batch says of itself.

        Its times are those of the newest commit up to it that was heard of here, if any: it
        never seems fresher than it is.
        """
        info = query_pb2.ReadInfo()
        info.CopyFrom(self.info)
        info.version = version
        known = next((each for each in reversed(self._infos) if each.version <= version), None)
        info.commit_time_ms = known.commit_time_ms if known else 0
        info.watermark_ms = known.watermark_ms if known else 0
        return info

    def sealed_up_to(self, version: int) -> list[backend_pb2.SealedSubtask]:
        """What is sealed of the uncommitted batches up to a version."""
        return [
            report for subtask in self.subtasks.values() for report in subtask.sealed_up_to(version)
        ]

    def take_reports(self) -> list[backend_pb2.SealedSubtask]:
        """What was sealed in the batches committed since the last call."""
        reports = list(self._reports)
        self._reports.clear()
        return reports

    def check_epoch(self, run_epoch: int) -> None:
        """Raises FENCED for an attempt of an older run; remembers a newer one."""
        if run_epoch < self.run_epoch:
            raise SupersededError(
                f"job {self.query_id.hex()} runs at epoch {self.run_epoch}; this attempt is of "
                f"epoch {run_epoch}, an older run: it must stop",
                reason=Reason.FENCED,
            )
        self.run_epoch = run_epoch

    def check_uncommitted(self, batch_id: int) -> None:
        """Raises ALREADY_COMMITTED where the batch is committed."""
        if batch_id <= self.committed_version:
            raise SupersededError(
                f"batch {batch_id} of job {self.query_id.hex()} is committed (the newest is "
                f"{self.committed_version}): its writes are in",
                reason=Reason.ALREADY_COMMITTED,
            )
