"""State servers that write snapshots when they are let, under a coordinator that asks for them."""

from __future__ import annotations

import tempfile
import threading
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from tests.coordinator.drivers import QUERY, Driver, subtask_of
from tests.coordinator.peer import Peer
from tests.waiting import DEADLINE_S, until

from queryable_state.internal.v1 import backend_pb2, checkpoint_pb2
from queryable_state.server.checkpoint.canonical import FILE_NAME, CanonicalWriter
from queryable_state.server.checkpoint.file_systems.storage import checksum, join
from queryable_state.server.checkpoint.file_systems.storage_factory import storage_of
from queryable_state.server.checkpoint.layout import range_folder
from queryable_state.server.coordinator import JobConfig
from queryable_state.server.coordinator.settings import CoordinatorSettings
from queryable_state.server.testing import FakeClock, InMemoryEngine, in_process_coordinator
from queryable_state.wire.keys.key_groups import key_group_range
from queryable_state.wire.status import status_of, trailing_metadata

if TYPE_CHECKING:
    from collections.abc import Iterator

    import grpc

    from queryable_state.server.coordinator.checkpoints.history import CheckpointReport
    from queryable_state.server.testing import InProcessCoordinator
    from queryable_state.wire.errors import QueryableStateError


LONG_S = DEADLINE_S


class WritingPeer(Peer):
    """Cuts once `may_cut` is set, writes each subtask once `may_write` is; both are, at first."""

    def __init__(self, coordinator: InProcessCoordinator, server_id: str, executor: str) -> None:
        self.snapshots: list[backend_pb2.SnapshotRequest] = []
        self.may_cut = threading.Event()
        self.may_write = threading.Event()
        self.may_cut.set()
        self.may_write.set()
        self.failure: QueryableStateError | None = None
        """What it answers instead of writing."""
        self.loses_files = False
        """Whether what it says is stored is not."""
        self.skipped: set[int] = set()
        """Subtasks it leaves out."""
        self.stalled: threading.Event | None = None
        """Set, it lets go of writes that were begun meanwhile, and that no cancelling ends."""
        self.writes = 0
        """Files written so far."""
        super().__init__(coordinator, server_id, executor)

    def Snapshot(  # type: ignore[override]
        self, request: backend_pb2.SnapshotRequest, context: grpc.ServicerContext
    ) -> Iterator[backend_pb2.SnapshotEvent]:
        with self._heard:
            self.snapshots.append(request)
            self._heard.notify_all()
        if not self._wait(self.may_cut, context):
            return
        yield backend_pb2.SnapshotEvent(cut=backend_pb2.SnapshotCut(duration_us=1))
        if not self._wait(self.may_write, context):
            return
        if self.failure is not None:
            context.set_trailing_metadata(trailing_metadata(self.failure))
            context.abort(status_of(self.failure), self.failure.message)
        for subtask in request.subtasks:
            if subtask.index not in self.skipped:
                yield backend_pb2.SnapshotEvent(range=self._write(request, subtask))

    def _write(
        self, request: backend_pb2.SnapshotRequest, subtask: backend_pb2.Subtask
    ) -> checkpoint_pb2.RangeSnapshot:
        first, last = key_group_range(subtask.index, subtask.parallelism, subtask.max_parallelism)
        with tempfile.TemporaryDirectory() as folder:
            local = Path(folder, FILE_NAME)
            with CanonicalWriter(local) as writer:
                writer.add(1, [(first.to_bytes(2, "big") + b"key", str(request.version).encode())])
            data = local.read_bytes()
        path = f"{range_folder(request.directory, subtask.operator_uid, first, last)}/{FILE_NAME}"
        if self.stalled is not None:
            assert self.stalled.wait(DEADLINE_S)
        if not self.loses_files:
            storage_of(request.root).write(join(request.root, path), data)
        self.writes += 1
        return checkpoint_pb2.RangeSnapshot(
            operator_uid=subtask.operator_uid,
            index=subtask.index,
            parallelism=subtask.parallelism,
            max_parallelism=subtask.max_parallelism,
            first_key_group=first,
            last_key_group=last,
            format=checkpoint_pb2.CANONICAL,
            files=[
                checkpoint_pb2.StoredFile(
                    name=FILE_NAME, path=path, size_bytes=len(data), checksum=checksum(data)
                )
            ],
            new_bytes=len(data),
        )

    def _wait(self, allowed: threading.Event, context: grpc.ServicerContext) -> bool:
        while not allowed.wait(0.01):
            if not context.is_active():
                return False
        return True


class WritingDriver(Driver):
    """A driver whose servers write snapshots; subtask 0 is of server a, subtask 1 of b."""

    peers: dict[str, WritingPeer]  # type: ignore[assignment]

    def __init__(self, running: InProcessCoordinator, folder: Path, stack: ExitStack) -> None:
        super().__init__(running, folder, stack)
        self.running = running
        self.opened: set[str] = set()

    @property
    def a(self) -> WritingPeer:
        return self.peer("a")

    @property
    def b(self) -> WritingPeer:
        return self.peer("b")

    def peer(self, server_id: str = "a") -> WritingPeer:
        if server_id not in self.peers:
            peer = WritingPeer(self._running, server_id, f"executor of {server_id}")
            self._stack.callback(peer.close)
            peer.register()
            self.peers[server_id] = peer
            self.engine.set_executors(len(self.peers))
        return self.peers[server_id]

    def run(self, *batches: int, committed: bool = True) -> None:
        """Whole batches on both servers: begun, opened at first, sealed, committed."""
        servers = (self.a.server_id, self.b.server_id)
        for batch in batches:
            epoch = self.begin(batch)
            for index, server in enumerate(servers):
                subtask = subtask_of(index)
                if server not in self.opened:
                    self.open(subtask, batch, server=server)
                    self.opened.add(server)
                    self.peers[server].register_states(subtask, "last")
                self.seal(subtask, batch, 10 * batch + index, server=server, epoch=epoch)
            if committed:
                self.commit(batch)

    def restarted(self) -> None:
        """Goes on as the run the engine was told of last."""
        info = self.engine.query(QUERY)
        assert info is not None
        self.run_id = info.run_id

    def reports(self, state: str = "") -> list[CheckpointReport]:
        """The attempts so far, newest first; those in one state only where it is named."""
        reports = self.coordinator.checkpoints(QUERY)
        return [report for report in reports if state in ("", report.state)]

    def await_reports(self, state: str, count: int = 1) -> list[CheckpointReport]:
        """The attempts, once there are so many in a state."""
        until(lambda: len(self.reports(state)) >= count)
        return self.reports(state)


def folders(job: WritingDriver) -> set[str]:
    """Those of checkpoints that have files: an id that was given up keeps its claim alone."""
    storage = job.root.storage
    return {
        name
        for name in storage.list(job.root.uri)
        if name.startswith("chk-") and storage.list(job.root.path(name)) != ["_claim"]
    }


@contextmanager
def writing_driver(
    folder: Path,
    config: JobConfig | None = None,
    *,
    clock: FakeClock | None = None,
    retained_finished_jobs: int = 10,
) -> Iterator[WritingDriver]:
    """A driver that finds in the folder what those before it have left.

    Without a `config` it takes no checkpoints by itself.
    """
    settings = CoordinatorSettings(
        strict=False,
        ports="0",
        stop_timeout_s=0.1,
        manifest_timeout_ms=300,
        retained_finished_jobs=retained_finished_jobs,
    )
    with ExitStack() as stack:
        running = stack.enter_context(
            in_process_coordinator(engine=InMemoryEngine(), settings=settings, clock=clock)
        )
        running.coordinator.configure("", config or JobConfig(checkpoint_interval_ms=0))
        yield WritingDriver(running, folder, stack)
