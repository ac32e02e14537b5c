"""The parts of a server behind its engine, with jobs whose batches are sealed by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.internal.v1 import changes_pb2
from queryable_state.server.config.limits import Limits
from queryable_state.server.query.frames.answer_frames import frame_of
from queryable_state.server.state_server.base.background_thread import BackgroundThread
from queryable_state.server.state_server.base.lease import Lease
from queryable_state.server.state_server.queries.state_reader import StateReader
from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask, SubtaskId
from queryable_state.server.state_server.stores.store_factory import StoreFactory
from queryable_state.server.state_server.stores.store_table import StoreTable
from queryable_state.server.storage.overlay import OverlayBuilder
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.keys.key_groups import KeyGroups, subtask_of
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE, record_key
from queryable_state.wire.schema.types import Types
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from queryable_state.server.state_server.stores.job_stores import WaitingQueries

QUERY_ID = bytes(range(16))
STATE_ID = 7
PARALLELISM = 4
MAX_PARALLELISM = 128

KEYS = KeyGroups(Types.STRING(), MAX_PARALLELISM)
VALUES = ValueCodec.of(Types.LONG())


SMALL_LIMITS = Limits(batch_keys=100, value_bytes=200, answer_bytes=200, prefix_records=5)


class ManualClock:
    """Time that moves when told to."""

    def __init__(self) -> None:
        self.monotonic_s = 1000.0
        self.now_ms = 1_700_000_000_000

    def advance(self, seconds: float) -> None:
        self.monotonic_s += seconds
        self.now_ms += int(seconds * 1000)


class Owner:
    """The parts of a server behind its engine, with a job of one state on some subtasks."""

    def __init__(
        self, backend: str, directory: Path, clock: ManualClock, limits: Limits = SMALL_LIMITS
    ) -> None:
        self.clock = clock
        self.lease = Lease(clock=lambda: clock.monotonic_s)
        self.lease.renew(clock.monotonic_s, 10_000, placement_version=3)
        self.table = StoreTable("server")
        self.factory = StoreFactory(backend, directory)  # type: ignore[arg-type]
        self.limits = limits
        self.background = BackgroundThread()
        self.engine = StateReader(
            self.table,
            self.lease,
            self.limits,
            self.background,
            server_id="server",
            now_ms=lambda: clock.now_ms,
        )
        self.registration = registration_pb2.StateRegistration(
            state_id=STATE_ID,
            job_id=QUERY_ID,
            state_name="last",
            queryable_name="last",
            kind=registration_pb2.VALUE,
            key_type=Types.STRING().to_proto(),
            max_parallelism=MAX_PARALLELISM,
        )

    @property
    def waiting(self) -> WaitingQueries:
        """The job's queries that wait."""
        return self.table.job_or_new(QUERY_ID).waiting

    def own(self, subtask: int, *, complete_since: int = 0) -> OwnedSubtask:
        subtask_id = SubtaskId(QUERY_ID, "op", subtask, PARALLELISM, MAX_PARALLELISM)
        store = self.factory.new(subtask_id, -1)
        store.add_state(STATE_ID)
        owned = OwnedSubtask(subtask_id, store, 1, complete_since)
        self.table.job_or_new(QUERY_ID).add(owned)
        self.table.add_state(owned, self.registration)
        return owned

    def own_all(self) -> None:
        for subtask in range(PARALLELISM):
            self.own(subtask)

    def seal(
        self,
        version: int,
        values: Mapping[str, int],
        *,
        namespace: bytes = VOID_NAMESPACE,
        element: bytes = b"",
        timestamp_ms: int | None = None,
    ) -> None:
        """Seals a value under each key."""
        self.seal_records(
            version,
            (
                (key, namespace, element, VALUES.encode(value, timestamp_ms))
                for key, value in values.items()
            ),
        )

    def seal_records(
        self, version: int, records: Iterable[tuple[str, bytes, bytes, bytes]]
    ) -> None:
        """Seals records of key, namespace, element and stored value, in their subtasks."""
        blocks = {
            subtask.id.subtask: changes_pb2.ChangeBlock(format_version=1, state_id=STATE_ID)
            for subtask in self.table.subtasks()
        }
        for key, namespace, element, value in records:
            block = blocks.get(subtask_of(KEYS.of(key), PARALLELISM, MAX_PARALLELISM))
            if block is not None:
                block.put_keys.append(record_key(KEYS.wire_key(key), namespace, element))
                block.put_values.append(value)
        for subtask in self.table.subtasks():
            builder = OverlayBuilder()
            builder.add_block(blocks[subtask.id.subtask])
            subtask.store.seal(version, builder.build(), (1, version + 1))

    async def compact(self, version: int) -> None:
        """Folds every store, on the thread it belongs to."""
        for subtask in self.table.subtasks():
            while await self.background.run(subtask.store.compact, version, 1000):
                pass

    def commit(self, version: int, watermark_ms: int = 0) -> None:
        self.table.job_or_new(QUERY_ID).commit(version, self.clock.now_ms, watermark_ms)

    def query(self, *keys: str, **fields: Any) -> query_pb2.Query:
        return query_pb2.Query(
            id=5, state_id=STATE_ID, keys=[KEYS.wire_key(key) for key in keys], **fields
        )

    def ask(self, *keys: str, **fields: Any) -> query_pb2.Answer:
        """The answer that is there at once; a look-up that has it, too, answers the same."""
        query = self.query(*keys, **fields)
        found, answer = self.engine.look_up(query), self.engine.answer(query)
        assert answer is not None
        assert found in (None, frame_of(answer))
        return answer

    async def ask_later(self, *keys: str, **fields: Any) -> query_pb2.Answer:
        """The answer that is not there at once."""
        query = self.query(*keys, **fields)
        assert self.engine.answer(query) is None
        return await self.engine.answer_later(query)

    async def aclose(self) -> None:
        for subtask in self.table.remove_job(QUERY_ID):
            await self.background.run(subtask.store.destroy)
        await self.background.aclose()


def key_of(subtask: int, number: int = 0) -> str:
    """The `number`-th key that belongs to a subtask."""
    found = (
        f"sensor_{i}"
        for i in range(10_000)
        if subtask_of(KEYS.of(f"sensor_{i}"), PARALLELISM, MAX_PARALLELISM) == subtask
    )
    return [next(found) for _ in range(number + 1)][-1]


def decoded(answer: query_pb2.Answer) -> list[int]:
    """The values of an answer."""
    return [VALUES.decode(value) for value in answer.values]
