"""The states of one Spark query on this server: loads, commits and the way back from failures."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, TypeVar

from queryable_state.server.native_state.server.batch_commit import commit_batch
from queryable_state.server.native_state.server.served_partition import ServedPartition
from queryable_state.server.native_state.store.batch_times import BatchTimes
from queryable_state.server.native_state.store.native_store import NativeStore
from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask, SubtaskId
from queryable_state.server.storage.store import NOTHING_COMMITTED
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import (
    CorruptDataError,
    InvalidRequestError,
    Reason,
    RetryLaterError,
    VersionGoneError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Sequence
    from concurrent.futures import Future

    from queryable_state.server.native_state.server.batch_facts import BatchFacts
    from queryable_state.server.native_state.server.native_threads import NativeThreads
    from queryable_state.server.native_state.server.owners import Owners
    from queryable_state.server.native_state.server.query_states import OperatorStates, QueryStates
    from queryable_state.server.state_server.base.background_thread import BackgroundThread
    from queryable_state.server.state_server.base.lease import Lease
    from queryable_state.server.state_server.base.thread_pool import ThreadPool
    from queryable_state.server.state_server.queries.versions import RequestedVersion
    from queryable_state.server.state_server.stores.job_stores import JobStores
    from queryable_state.server.state_server.stores.store_table import StoreTable
    from queryable_state.server.storage.overlay import Overlay
    from queryable_state.server.storage.store import StateStore
    from queryable_state.wire.errors import QueryableStateError

# Records that one job of the background thread compacts, so that reads run in between.
_COMPACTED_RECORDS = 4096
# Changes kept apart for older versions, over all partitions; above it they are compacted.
_OVERLAY_BYTES = 256 << 20

_LEASE_MS = 1 << 50

_TAKEN_BACK_RETRY_MS = 1000

_log = logging.getLogger(__name__)

_Found = TypeVar("_Found", bound="Overlay | StateStore")


class ServedQuery:
    """The stores of the partitions that this server has, all at one batch. Event loop only.

    Commits and the ends of loads take turns, so that every loaded partition is at the committed
    batch. What fails leaves the stores at the batch before.

    An operator of which a file is damaged or lost is left out, unless it is the last one: the
    others are served, and reads of its states are refused by name. A load leaves it out at once,
    a commit or `reload` only if its caller says so or if it was left out before.
    """

    def __init__(
        self,
        uri: str,
        query_id: bytes,
        table: StoreTable,
        lease: Lease,
        owners: Owners,
        threads: NativeThreads,
        *,
        follows: bool,
        kept_batches: int,
    ) -> None:
        self.uri = uri
        self.query_id = query_id
        self.states: QueryStates
        """The states that are served, as of the newest change of them; set by `begin`."""
        self.unserved: dict[int, CorruptDataError] = {}
        """Why states are not served of which a file is damaged or lost, by id."""
        self._described: QueryStates
        # Of each operator that is left out, by uid: a partition that cannot be read, and why.
        self._damages: dict[str, tuple[ServedPartition, CorruptDataError]] = {}
        self.refusal: QueryableStateError | None = None
        """Why nothing is answered any more; None: queries are answered."""
        self.taken_back: QueryableStateError | None = None
        """Why nothing is answered until the query commits again; None: queries are answered."""
        self._newest_taken_back = NOTHING_COMMITTED
        self.placement_version = 0
        self.unplaced: dict[int, int] = {}
        """The number of partitions of each state whose keys are not placed by their hash, by id."""
        self._table = table
        self._lease = lease
        self._owners = owners
        self._background = threads.background
        self._loading = threads.loading
        self._following = threads.following
        self._calls = _PartitionCalls(threads.following, threads.background)
        self._batch_times = BatchTimes()
        # By operator, of those whose keys are not placed by their hash.
        self._peers: dict[str, list[NativeStore]] = {}
        self._follows = follows
        self._kept_batches = kept_batches
        self._partitions: list[ServedPartition] = []
        self.is_whole = False
        """True if every partition that this server has is loaded."""
        self._turn = asyncio.Lock()
        self._facts: BatchFacts
        self._compaction: asyncio.Task[None] | None = None
        self.job: JobStores
        """The stores; set by `begin`, and another one after each `reload`."""

    @property
    def loaded(self) -> int:
        """Number of loaded partitions."""
        return sum(each.subtask is not None for each in self._partitions)

    @property
    def progress(self) -> str:
        """How much is loaded, in words."""
        return f"{self.loaded} of {len(self._partitions)} partitions are loaded"

    @property
    def partitions(self) -> Sequence[ServedPartition]:
        """The partitions that this server has, of all operators."""
        return self._partitions

    def partitions_of(self, state_id: int) -> list[int]:
        """The partitions of a state that this server has, ascending."""
        return [each.index for each in self._partitions if state_id in each.operator.registrations]

    @property
    def is_alone(self) -> bool:
        """True if no other server has partitions of the query."""
        return not self._owners.are_several

    @property
    def facts(self) -> BatchFacts:
        """Facts of the committed batch, from the checkpoint's logs."""
        return self._facts

    def begin(self, states: QueryStates, facts: BatchFacts) -> None:
        """Starts at a batch, without any partition loaded."""
        self._calls.destroy(*(each.store for each in self._table.remove_job(self.query_id)))
        self._batch_times.add(facts.batch, facts.timestamp_ms)
        self._use(states, self._partitions_of(states), facts)

    async def load_all(self) -> None:
        """Loads every partition that this server has; raises the first failure."""
        await self._load(self._partitions)

    async def load(self, state_id: int, groups: Iterable[int]) -> None:
        """Loads the partitions with these key groups of a state, as far as this server has them.

        These are all, if Spark does not place keys by their hash.
        """
        wanted = set(groups)
        await self._load(
            [
                each
                for each in self._partitions
                if state_id in each.operator.registrations
                and (each.index in wanted or not each.operator.placed_by_hash)
            ]
        )

    async def advance(self, facts: BatchFacts, *, leave_out: bool = False) -> None:
        """Commits the next batch: all partitions that are loaded, in one turn of the loop."""
        async with self._turn:
            await self._commit(
                facts, lambda each, ids: each.changes(facts.batch, ids), leave_out=leave_out
            )

    async def jump(self, facts: BatchFacts, *, leave_out: bool = False) -> None:
        """Moves over batches whose files are gone to a later one: reopens all stores."""
        async with self._turn:
            await self._commit(
                facts, lambda each, ids: each.files.open(facts.batch, ids), leave_out=leave_out
            )

    async def reload(
        self, states: QueryStates, facts: BatchFacts, *, leave_out: bool = False
    ) -> None:
        """Starts over at a batch, with the states as they are since then.

        The partitions that were loaded are loaded first; meanwhile the old ones answer. Clients
        then locate the states anew, and watches go on with a gap.
        """
        async with self._turn:
            old = self._partitions
            loaded = {(each.operator.operator_id, each.index) for each in old if each.subtask}
            whole = len(loaded) == len(old)
            self._batch_times.add(facts.batch, facts.timestamp_ms)
            new = self._partitions_of(states)
            wanted = [
                each for each in new if whole or (each.operator.operator_id, each.index) in loaded
            ]
            raws, damages = await self._readable(
                states,
                wanted,
                lambda each: each.files.open(facts.batch, facts.ids(each)),
                leave_out=leave_out,
            )
            self.taken_back = None
            removed = self._table.remove_job(self.query_id)
            self._use(states, new, facts)
            for each, raw in raws:
                self._add(each, raw)
            for damage in damages:
                self._leave_out(*damage)
            self._calls.destroy(*(each.store for each in removed))

    @property
    def has_damages(self) -> bool:
        """True if an operator is left out because a file is damaged or lost."""
        return bool(self._damages)

    async def is_mended(self) -> bool:
        """True if an operator that is left out can be read again: `reload` serves it.

        If another file of it turns out to be damaged, its states are refused with that one.
        """
        facts = self._facts
        for each, problem in list(self._damages.values()):
            ids = facts.ids(each)
            try:
                # Lists the folder, before files are read.
                await self._loading.run(each.files.check, facts.batch, ids)
                raw: StateStore = await self._loading.run(each.files.open, facts.batch, ids)
            except CorruptDataError as still:
                if still.message != problem.message:
                    self._damages[each.operator.uid] = each, still
                    self._name_damages()
            except (RetryLaterError, VersionGoneError):
                continue
            else:
                self._calls.destroy(raw)
                return True
        return False

    def take_back(self, newest: int) -> None:
        """Refuses queries while the commit of the served batch is removed.

        `newest`: the newest committed batch now, -1: none. Until the query commits again, nobody
        knows whether it is the state: `reload` ends the refusal, `restore` if the commit is back.
        """
        batch = self._facts.batch
        if self.taken_back is None:
            self._newest_taken_back = max(self._newest_taken_back, batch)
            self._table.wake_waiting()
        rest = f"the newest one is {newest}" if newest >= 0 else "there is no other one"
        self.taken_back = RetryLaterError(
            f"batch {batch} of {self.uri}, which was served, was taken back: its commit was "
            f"removed, {rest}. Start the query again: its next batch is served once it is "
            "committed",
            retry_after_ms=_TAKEN_BACK_RETRY_MS,
        )

    def restore(self) -> None:
        """Answers queries again: the commit of the served batch is there."""
        self.taken_back = None

    def refuse(self, refusal: QueryableStateError) -> None:
        """Refuses every query from now on."""
        self.refusal = refusal
        self._table.wake_waiting()

    def check(self, requested: RequestedVersion | None) -> None:
        """Raises why a query is refused for good."""
        if self.refusal is not None:
            raise self.refusal.copy()
        if self.taken_back is not None:
            raise self.taken_back.copy()
        if requested is None:
            return
        exact = requested.at_version is not None
        wanted = requested.min_version if requested.at_version is None else requested.at_version
        if self._facts.batch < wanted <= self._newest_taken_back:
            raise VersionGoneError(
                f"the query needs batch {wanted}{'' if exact else ' or later'}, which was taken "
                f"back: its commit was removed from {self.uri}, and batch {self._facts.batch} was "
                "committed since then; ask for that one"
            )
        if self._follows:
            return
        if wanted > self._facts.batch:
            raise InvalidRequestError(
                f"the query needs batch {wanted}{'' if exact else ' or later'}, but {self.uri} is "
                f"served as of batch {self._facts.batch}: serve it with --follow"
            )

    def check_state(self, state_id: int) -> None:
        """Raises why a state is not served of which a file is damaged or lost."""
        refusal = self.unserved.get(state_id)
        if refusal is not None:
            raise refusal.copy()

    def check_watch(self) -> None:
        """Raises unless the states can be watched."""
        self.check(None)
        if not self._follows:
            raise InvalidRequestError(
                f"{self.uri} is served as of batch {self._facts.batch}, which never changes: serve "
                "it with --follow to watch it",
                reason=Reason.UNSUPPORTED,
            )

    async def aclose(self) -> None:
        """Closes the stores and removes their files; idempotent."""
        tasks = [each.loading for each in self._partitions if each.loading is not None]
        if self._compaction is not None:
            tasks.append(self._compaction)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for subtask in self._table.remove_job(self.query_id):
            await self._background.run(subtask.store.destroy)

    def _use(
        self, states: QueryStates, partitions: list[ServedPartition], facts: BatchFacts
    ) -> None:
        self._described, self._partitions, self._facts = states, partitions, facts
        self._damages = {}
        self._name_damages()
        self.is_whole = not partitions
        self._peers = {each.uid: [] for each in states.operators if not each.placed_by_hash}
        self.unplaced = {
            state_id: each.partitions
            for each in states.operators
            if not each.placed_by_hash
            for state_id in each.registrations
        }
        self.placement_version += 1
        self._lease.renew(self._lease.now_s(), _LEASE_MS, self.placement_version)
        self.job = self._table.job_or_new(self.query_id)
        self.job.info = query_pb2.ReadInfo(
            version=NOTHING_COMMITTED,
            role=query_pb2.CHECKPOINT,
            server_id=self._owners.server_id,
            checkpoint=self.uri,
        )
        self.job.commit(facts.batch, facts.commit_time_ms, facts.watermark_ms)

    def _partitions_of(self, states: QueryStates) -> list[ServedPartition]:
        return [
            ServedPartition(operator, index, operator.files(index))
            for operator in states.operators
            for index in range(operator.partitions)
            if self._owners.is_own(index)
        ]

    async def _load(self, wanted: Sequence[ServedPartition]) -> None:
        for each in wanted:
            if each.subtask is None and each.loading is None:
                each.loading = asyncio.create_task(self._load_one(each))
        loads = [each.loading for each in wanted if each.loading is not None]
        # A caller that gives up does not end the load, which others may wait for.
        await asyncio.gather(*map(asyncio.shield, loads))

    async def _load_one(self, each: ServedPartition) -> None:
        try:
            facts = self._facts
            raw: StateStore = await self._loading.run(each.files.open, facts.batch, facts.ids(each))
            async with self._turn:
                if self._facts.batch > facts.batch:
                    # Batches were committed meanwhile.
                    await self._background.run(raw.destroy)
                    facts = self._facts
                    raw = await self._loading.run(each.files.open, facts.batch, facts.ids(each))
                if each in self._partitions:
                    self._add(each, raw)
                else:
                    await self._background.run(raw.destroy)
        except CorruptDataError as problem:
            async with self._turn:
                if each in self._partitions:
                    if not _have_states(self.states.operators, but={each.operator.uid}):
                        raise
                    self._leave_out(each, problem)
        finally:
            each.loading = None

    def _add(self, each: ServedPartition, raw: StateStore) -> None:
        operator = each.operator
        peers = self._peers.get(operator.uid, [])
        store = NativeStore(raw, operator.layouts, each.index, self._batch_times, peers)
        if operator.uid in self._peers:
            peers.append(store)
        partitions = operator.partitions
        each.subtask = OwnedSubtask(
            SubtaskId(self.query_id, operator.uid, each.index, partitions, partitions),
            store,
            self.placement_version,
            0,
        )
        self.job.add(each.subtask)
        for registration in operator.registrations.values():
            self._table.add_state(each.subtask, registration)
        self.is_whole = self.loaded == len(self._partitions)

    async def _readable(
        self,
        states: QueryStates,
        partitions: Sequence[ServedPartition],
        call: Callable[[ServedPartition], _Found],
        *,
        leave_out: bool,
    ) -> tuple[
        list[tuple[ServedPartition, _Found]], list[tuple[ServedPartition, CorruptDataError]]
    ]:
        """The results of `call` for the partitions of operators that can be read, and one damage
        of each other operator; raises the damage unless it may leave out the operator."""
        results = await self._calls.all(partitions, call)
        damages: dict[str, tuple[ServedPartition, CorruptDataError]] = {}
        for each, found in zip(partitions, results, strict=True):
            if isinstance(found, CorruptDataError):
                damages.setdefault(each.operator.uid, (each, found))
        readable = []
        for each, found in zip(partitions, results, strict=True):
            if not isinstance(found, CorruptDataError):
                if each.operator.uid in damages:
                    self._calls.destroy(found)
                else:
                    readable.append((each, found))
        new = [damage for uid, damage in damages.items() if uid not in self._damages]
        if (new and not leave_out) or not _have_states(states.operators, but=damages):
            self._calls.destroy(*(found for _, found in readable))
            raise next(iter(new or damages.values()))[1]
        return readable, list(damages.values())

    def _leave_out(self, damaged: ServedPartition, problem: CorruptDataError) -> None:
        """Ends the reads of an operator; the others are not touched."""
        uid = damaged.operator.uid
        self._damages[uid] = damaged, problem
        for each in self._partitions:
            if each.operator.uid == uid and each.subtask is not None:
                self._table.remove(each.subtask)
                self._calls.destroy(each.subtask.store)
        self._partitions = [each for each in self._partitions if each.operator.uid != uid]
        self.is_whole = self.loaded == len(self._partitions)
        self._name_damages()
        _log.error("%s: operator %s is left out: %s", self.uri, uid, problem)

    def _name_damages(self) -> None:
        self.states = self._described.without(
            {uid: problem for uid, (_, problem) in self._damages.items()}
        )
        self.unserved = {
            state_id: self.states.left_out[each.queryable_name]
            for operator in self._described.operators
            for state_id, each in operator.registrations.items()
            if each.queryable_name in self.states.left_out
        }

    async def _commit(
        self,
        facts: BatchFacts,
        prepare: Callable[[ServedPartition, Sequence[str | None]], Overlay | StateStore],
        *,
        leave_out: bool,
    ) -> None:
        loaded = [each for each in self._partitions if each.subtask is not None]
        self._batch_times.add(facts.batch, facts.timestamp_ms)
        readable, damages = await self._readable(
            self.states, loaded, lambda each: prepare(each, facts.ids(each)), leave_out=leave_out
        )
        prepared = [found for _, found in readable]
        loaded = [each for each, _ in readable]
        for damage in damages:
            self._leave_out(*damage)
        try:
            await commit_batch(self.job, facts, loaded, prepared, self._following)
            self._facts = facts
        finally:
            for each in loaded:
                self._calls.destroy(*each.store.take_retired())
        if self._compaction is None or self._compaction.done():
            self._compaction = asyncio.create_task(self._compact(loaded))

    async def _compact(self, loaded: Sequence[ServedPartition]) -> None:
        """Moves the changes of old batches into the bases, on the background thread."""
        up_to = self._facts.batch - self._kept_batches
        if sum(each.store.overlay_bytes for each in loaded) > _OVERLAY_BYTES:
            up_to = self._facts.batch - 1
        for each in loaded:
            store = each.store
            while each in self._partitions and await self._background.run(
                store.compact, up_to, _COMPACTED_RECORDS
            ):
                pass


class _PartitionCalls:
    """Reads files for partitions side by side, and closes stores in the background."""

    def __init__(self, threads: ThreadPool, background: BackgroundThread) -> None:
        self._threads = threads
        self._background = background

    async def all(
        self, partitions: Sequence[ServedPartition], call: Callable[[ServedPartition], _Found]
    ) -> list[_Found | CorruptDataError]:
        """The result of `call` for each partition, or why its files cannot be read; if one fails
        for another reason, raises it and closes the others' stores."""
        results = await asyncio.gather(
            *(self._threads.run(call, each) for each in partitions), return_exceptions=True
        )
        found: list[_Found | CorruptDataError] = []
        for each in results:
            if isinstance(each, BaseException) and not isinstance(each, CorruptDataError):
                self.destroy(*(one for one in results if not isinstance(one, BaseException)))
                raise each
            found.append(each)
        return found

    def destroy(self, *found: Overlay | StateStore) -> None:
        """Closes stores and removes their files behind the reads that are enqueued."""
        for each in found:
            destroy = getattr(each, "destroy", None)
            if destroy is not None:
                self._background.submit(destroy).add_done_callback(_log_failure)


def _have_states(operators: Iterable[OperatorStates], *, but: Collection[str]) -> bool:
    """True if operators but these, by uid, have states."""
    return any(each.registrations for each in operators if each.uid not in but)


def _log_failure(done: Future[object]) -> None:
    problem = done.exception()
    if problem is not None:
        _log.error("a store could not be closed", exc_info=problem)
