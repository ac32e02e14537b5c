"""Questions for keys, all of them asked over the streams."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from queryable_state.client._client_base import ClientBase
from queryable_state.client._reading.gathering import gather, raise_if_refused
from queryable_state.client._reading.multi_get import MultiGet
from queryable_state.client._reading.operation import ENTRY, ENTRY_EXISTS, EXISTS, SIZE
from queryable_state.client._reading.outcomes import Collection, OutcomeResults
from queryable_state.client._reading.states import KvState
from queryable_state.client._routing.snapshot_read import read_one_cut
from queryable_state.wire.consistent_snapshot import check_snapshot
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine, Iterable
    from typing import Unpack

    from queryable_state.client._arguments import Job, ReadOptions
    from queryable_state.client._reading.elements import MapEntry, Presence, Size
    from queryable_state.client._reading.gathering import Gathering
    from queryable_state.client._reading.operation import Operation
    from queryable_state.client._routing.key_batcher import KeyBatcher

_Result = TypeVar("_Result")

NO_MAP_KEY: Any = object()
"""No entry is meant; None may be told from it by its type."""


class KeyLookups(ClientBase):
    """The questions for keys. Every refusal comes through the future that is returned."""

    def get_kv_state(
        self, job: Job, state_name: str, key: Any, **options: Unpack[ReadOptions]
    ) -> asyncio.Future[KvState]:
        """A future of the state under one key.

        Args:
            job: Id or name; None where only one job has the state.
            state_name: The queryable name.
            key: A value of the registered key type.
            key_type: What the caller takes the key type for: a type, Spark DDL
                or a pyspark `DataType`. `KeyTypeError` where it is another.
            descriptor: What the caller takes the state for: any object with
                `kind`, `value_type` and, of a map, `map_key_type`.
                `DescriptorMismatchError` where it is another.
            namespace: Encoded namespace; None: the state outside windows.
            consistency: Which batches it may be answered from, a `Consistency`.
            allow_incomplete: Accept the answer of a range that lost older state;
                `info.complete_since_batch` says since when it is complete.
            timeout_s: Seconds until the query fails; None: the client's.

        Raises (through the future): `UnknownKeyOrNamespaceError` where nothing
            is stored under the key, and the errors of `queryable_state.client`.
        """
        batcher = self._batchers.get((job, state_name))
        if batcher is None or options:
            try:
                batcher = self._batcher(job, state_name, options)
            except QueryableStateError as error:
                return self._failed(error)
        # As `_ask`, without the cost of a call.
        loop = self._loop
        assert loop is not None
        future: asyncio.Future[KvState] = loop.create_future()
        encode = batcher.encode
        if encode is not None:
            try:
                key = encode(key)
            except QueryableStateError as error:
                future.set_exception(batcher.key_error(error))
                return future
        batcher.keys.append(key)
        batcher.futures.append(future)
        if not batcher.scheduled:
            batcher.scheduled = True
            loop.call_soon(batcher.flush)
        return future

    def get_kv_states(
        self,
        job: Job,
        state_name: str,
        keys: Iterable[Any],
        *,
        one_cut: bool = False,
        **options: Unpack[ReadOptions],
    ) -> asyncio.Future[list[KvState | None]]:
        """One future of the states under many keys, aligned with `keys`; None where there is none.

        The first key that cannot be read fails the whole call. With `one_cut` all
        are as of one committed batch, whichever servers have them. The other
        arguments as of `get_kv_state`.
        """
        try:
            batcher = self._batcher(job, state_name, options)
            asked = list(keys)
            if one_cut:
                return self._run(self._states_of_one_cut(batcher, asked))
            encode_all = batcher.encode_all
            try:
                encoded = asked if encode_all is None else encode_all(asked)
            except QueryableStateError as error:
                raise batcher.key_error(error) from None
        except QueryableStateError as error:
            return self._failed(error)
        future: asyncio.Future[list[KvState | None]] = batcher.new_future()
        if not encoded:
            future.set_result([])
            return future
        collection = Collection(future, len(encoded))
        batcher.gather_all(encoded, OutcomeResults(collection, range(len(encoded))))
        return future

    def multi_get(
        self,
        job: Job,
        state_name: str,
        keys: Iterable[Any],
        *,
        one_cut: bool = False,
        **options: Unpack[ReadOptions],
    ) -> asyncio.Future[MultiGet]:
        """A future of what became of each of many keys, aligned with `keys`.

        Where an owner is gone, or lost state, the keys of others are answered all the
        same. With `one_cut` all that is read is as of one committed batch, whichever
        servers have it. What is wrong with the call itself, as an unknown state, is
        raised. The other arguments as of `get_kv_state`.
        """
        try:
            batcher = self._batcher(job, state_name, options)
        except QueryableStateError as error:
            return self._failed(error)
        asked = list(keys)
        if one_cut:
            return self._run(self._multi_get_of_one_cut(batcher, asked))
        return self._run(self._gathered(batcher, asked, gather(batcher, asked)))

    def get_map_entry(
        self, job: Job, state_name: str, key: Any, map_key: Any, **options: Unpack[ReadOptions]
    ) -> asyncio.Future[MapEntry]:
        """A future of one entry of a map, without the others; arguments as of `get_kv_state`.

        `UnknownKeyOrNamespaceError` where the map has no such entry.
        """
        return self._ask(job, state_name, (key, map_key), ENTRY, options)

    def contains(
        self,
        job: Job,
        state_name: str,
        key: Any,
        map_key: Any = NO_MAP_KEY,
        **options: Unpack[ReadOptions],
    ) -> asyncio.Future[Presence]:
        """A future of whether anything is stored under a key, or under an entry of its map.

        No value is moved for it. Arguments as of `get_kv_state`.
        """
        if map_key is NO_MAP_KEY:
            return self._ask(job, state_name, key, EXISTS, options)
        return self._ask(job, state_name, (key, map_key), ENTRY_EXISTS, options)

    def size(
        self, job: Job, state_name: str, key: Any, **options: Unpack[ReadOptions]
    ) -> asyncio.Future[Size]:
        """A future of how much is stored under a key; arguments as of `get_kv_state`.

        `UnknownKeyOrNamespaceError` where nothing is.
        """
        return self._ask(job, state_name, key, SIZE, options)

    def _ask(
        self, job: Job, state_name: str, key: Any, operation: Operation, options: ReadOptions
    ) -> asyncio.Future[Any]:
        """Asks for one key together with whatever else is asked for in this turn of the loop."""
        try:
            batcher = self._batcher(job, state_name, options, operation)
        except QueryableStateError as error:
            return self._failed(error)
        return batcher.ask(key)

    def _run(self, work: Coroutine[Any, Any, _Result]) -> asyncio.Task[_Result]:
        assert self._loop is not None
        return self._loop.create_task(work)

    def _deadline(self, batcher: KeyBatcher) -> float:
        assert self._loop is not None
        return self._loop.time() + batcher.options.timeout_s

    async def _gathered(
        self, batcher: KeyBatcher, keys: list[Any], gathering: Gathering
    ) -> MultiGet:
        await gathering.future
        raise_if_refused(batcher, gathering)
        return MultiGet(keys, gathering.whole())

    async def _of_one_cut(self, batcher: KeyBatcher, keys: list[Any]) -> Gathering:
        check_snapshot(batcher.options.consistency.wire)
        return await read_one_cut(batcher, keys, self._deadline(batcher))

    async def _multi_get_of_one_cut(self, batcher: KeyBatcher, keys: list[Any]) -> MultiGet:
        return MultiGet(keys, (await self._of_one_cut(batcher, keys)).whole())

    async def _states_of_one_cut(
        self, batcher: KeyBatcher, keys: list[Any]
    ) -> list[KvState | None]:
        gathering = await self._of_one_cut(batcher, keys)
        for failure in gathering.failures():
            raise failure.copy()
        return [known if isinstance(known, KvState) else None for known in gathering.outcomes]
