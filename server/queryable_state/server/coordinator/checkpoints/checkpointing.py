"""Components that write the checkpoints and savepoints of one coordinator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.coordinator.checkpoints.checkpointer import Checkpointer
from queryable_state.server.coordinator.checkpoints.history import CheckpointHistory
from queryable_state.server.coordinator.checkpoints.job_ends import JobEnds
from queryable_state.server.coordinator.checkpoints.savepoints import Savepoints
from queryable_state.server.coordinator.checkpoints.snapshot_writer import SnapshotWriter
from queryable_state.server.coordinator.checkpoints.snapshots import Snapshots

if TYPE_CHECKING:
    import threading

    from queryable_state.server.coordinator.model.engine import Engine
    from queryable_state.server.coordinator.model.state import CoordinatorState
    from queryable_state.server.coordinator.recovery.batch_commits import BatchCommits
    from queryable_state.server.coordinator.roots.job_roots import JobRoots
    from queryable_state.server.coordinator.servers.state_server_clients import StateServerClients


class Checkpointing:
    """The components, started and closed together.

    `published` is set after every publication of a commit. `start` once; `close` cancels snapshots
    in progress, and may be called without a start.
    """

    def __init__(
        self,
        engine: Engine,
        state: CoordinatorState,
        roots: JobRoots,
        clients: StateServerClients,
        commits: BatchCommits,
        published: threading.Event,
    ) -> None:
        snapshots = Snapshots(state, roots)
        self.writer = writer = SnapshotWriter(engine, snapshots, clients)
        self.history = CheckpointHistory()
        self.checkpointer = Checkpointer(
            engine, roots, snapshots, writer, self.history, published, wall_ms=state.wall_ms
        )
        self.ends = JobEnds(engine, commits, roots, snapshots, writer)
        self.savepoints = Savepoints(
            engine, roots, snapshots, writer, self.history, self.ends, wall_ms=state.wall_ms
        )

    def start(self) -> None:
        """Checkpoints are triggered from now on."""
        self.checkpointer.start()

    def close(self) -> None:
        """Gives up every snapshot, and begins none."""
        self.checkpointer.close()
