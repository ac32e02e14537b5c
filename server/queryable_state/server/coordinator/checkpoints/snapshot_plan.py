"""Plan of a snapshot: the operators, subtasks and servers of a job at one batch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from queryable_state.internal.v1 import backend_pb2
    from queryable_state.server.coordinator.model.commits import CompactionCap
    from queryable_state.v1 import registration_pb2


@dataclass(frozen=True, kw_only=True)
class PlannedOperator:
    """A stateful operator as a snapshot has it."""

    uid: str
    name: str
    depth: int
    parallelism: int
    max_parallelism: int
    states: tuple[registration_pb2.StateRegistration, ...]


@dataclass(frozen=True, kw_only=True)
class PlannedServer:
    """What one server has to write."""

    address: str
    """HOST:PORT of `StateBackend`."""
    subtasks: tuple[backend_pb2.Subtask, ...]
    opened: tuple[int, ...]
    """Batch at which each was opened: another one is another store."""


@dataclass(frozen=True, kw_only=True)
class SnapshotPlan:
    """All subtasks of a job, and the committed batch to write them as of.

    While its cap is held, no server compacts newer versions.
    """

    query_id: bytes
    job_name: str
    label: str
    cap: CompactionCap
    commit_time_ms: int
    watermark_ms: int
    operators: tuple[PlannedOperator, ...]
    servers: Mapping[str, PlannedServer]
    """By id."""
    complete_since: int
    """First batch since which all of it is complete; 0: all is."""

    @property
    def version(self) -> int:
        """The committed batch."""
        return self.cap.version
