"""Drivers one after another over one root: a coordinator, its engine, and peers that seal files."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from tests.coordinator.peer import Peer

from queryable_state.internal.v1 import backend_pb2, changes_pb2, checkpoint_pb2
from queryable_state.server.checkpoint import layout
from queryable_state.server.checkpoint.file_systems.storage import checksum
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint.layout import ChangelogPath
from queryable_state.server.checkpoint.state_root import StateRoot
from queryable_state.server.coordinator.settings import CoordinatorSettings
from queryable_state.server.testing import FakeClock, InMemoryEngine, in_process_coordinator
from queryable_state.wire.changelog import write_changelog
from queryable_state.wire.changes import BlockSums, ChangeBlockBuilder
from queryable_state.wire.keys.key_groups import key_group_range

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from queryable_state.server.coordinator import JobConfig
    from queryable_state.server.testing import InProcessCoordinator

QUERY = b"durable query id"


def subtask_of(
    index: int = 0, *, uid: str = "op", p: int = 2, most: int = 128
) -> backend_pb2.Subtask:
    return backend_pb2.Subtask(
        query_id=QUERY, operator_uid=uid, index=index, parallelism=p, max_parallelism=most
    )


class Driver:
    """One driver's life: its query is started, and batches are run by hand."""

    def __init__(self, running: InProcessCoordinator, folder: Path, stack: ExitStack) -> None:
        self.engine = running.engine
        self.coordinator = running.coordinator
        self.location = str(folder / "spark")
        root = layout.beside(self.location)
        self.root = StateRoot(root, storage_of(root))
        self.peers: dict[str, Peer] = {}
        self._running = running
        self._stack = stack
        _, self.run_id = self.engine.start("job", query_id=QUERY, checkpoint_location=self.location)

    def peer(self, server_id: str = "a") -> Peer:
        """The state server of this id, made at first."""
        if server_id not in self.peers:
            peer = Peer(self._running, server_id, f"executor of {server_id}")
            self._stack.callback(peer.close)
            peer.register()
            self.peers[server_id] = peer
        return self.peers[server_id]

    def begin(
        self, batch: int, *, server: str = "a", offsets: bytes | None = None, config_id: str = ""
    ) -> int:
        """Plans and begins a batch; answers the run's epoch."""
        self.engine.plan(QUERY, batch, offsets=offsets)
        return self.peer(server).begin(QUERY, self.run_id, batch, config_id).run_epoch

    def open(
        self, subtask: backend_pb2.Subtask, batch: int, *, server: str = "a"
    ) -> checkpoint_pb2.RestorePlan:
        """Assigns, plans, opens and registers, as a server does at first contact."""
        peer = self.peer(server)
        assert peer.assign(subtask) == server
        plan = peer.plan(subtask, batch)
        peer.open(subtask, batch, restored=plan.durable)
        return plan

    def file(
        self,
        subtask: backend_pb2.Subtask,
        batch: int,
        attempt: int,
        *,
        epoch: int,
        offsets: bytes | None = None,
        changes: ChangeBlockBuilder | None = None,
    ) -> checkpoint_pb2.ChangelogFile:
        """A sealed changelog, as a server has it written before it acknowledges."""
        first, last = key_group_range(subtask.index, subtask.parallelism, subtask.max_parallelism)
        token = changes_pb2.Token(run_epoch=epoch, task_attempt=attempt)
        self.engine.plan(QUERY, batch, offsets=offsets)
        digest = self.engine.clocks(QUERY, batch).offsets_digest
        blocks = [] if changes is None else changes.finish()
        sums = BlockSums() if changes is None else changes.sums
        seal = sums.seal(token, fingerprint=1, row_count=1)
        data = write_changelog(blocks, seal, batch_id=batch, offsets_digest=digest)
        path = layout.changelog_file(
            ChangelogPath(batch, subtask.operator_uid, first, last, epoch, attempt)
        )
        self.root.storage.write(self.root.path(path), data)
        return checkpoint_pb2.ChangelogFile(
            batch_id=batch,
            operator_uid=subtask.operator_uid,
            path=path,
            size_bytes=len(data),
            checksum=checksum(data),
            token=token,
            index=subtask.index,
            parallelism=subtask.parallelism,
            first_key_group=first,
            last_key_group=last,
        )

    def seal(
        self,
        subtask: backend_pb2.Subtask,
        batch: int,
        attempt: int,
        *,
        server: str = "a",
        epoch: int,
        changes: ChangeBlockBuilder | None = None,
    ) -> checkpoint_pb2.ChangelogFile:
        """A changelog that is written and reported at the commit."""
        file = self.file(subtask, batch, attempt, epoch=epoch, changes=changes)
        self.peer(server).seal(subtask, batch, changelog=file)
        return file

    def commit(self, batch: int) -> None:
        """The engine commits, and the coordinator has written it down."""
        self.engine.commit(QUERY, batch)
        assert self.coordinator.settle(QUERY, batch, 10.0)


@contextmanager
def driver(
    folder: Path,
    config: JobConfig | None = None,
    *,
    strict: bool = False,
    lease_ms: int = 5_000,
    clock: FakeClock | None = None,
) -> Iterator[Driver]:
    """A driver that finds in the folder what those before it have left."""
    settings = CoordinatorSettings(
        strict=strict,
        ports="0",
        stop_timeout_s=0.1,
        manifest_timeout_ms=300,
        reopen_after_ms=50,
        lease_ms=lease_ms,
    )
    with ExitStack() as stack:
        running = stack.enter_context(
            in_process_coordinator(engine=InMemoryEngine(), settings=settings, clock=clock)
        )
        if config is not None:
            running.coordinator.configure("", config)
        yield Driver(running, folder, stack)
