"""Lookups by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from queryable_state.client._batching.multi_lookup import look_up_many, raise_call_error
from queryable_state.client._client_base import ClientBase
from queryable_state.client._reading.multi_get import MultiGet
from queryable_state.client._reading.operation import ENTRY, ENTRY_EXISTS, EXISTS, SIZE
from queryable_state.client._reading.outcomes import OutcomeResults, StateOutcomes
from queryable_state.client._reading.states import KvState
from queryable_state.client._routing.snapshot_read import read_keys_in_snapshot
from queryable_state.wire.consistent_snapshot import check_snapshot
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine, Iterable
    from typing import Unpack

    from queryable_state.client._arguments import Job
    from queryable_state.client._batching.key_batcher import KeyBatcher
    from queryable_state.client._read_options import ReadOptions
    from queryable_state.client._reading.elements import MapEntry, Presence, Size
    from queryable_state.client._reading.operation import Operation
    from queryable_state.client._reading.outcomes import KeyOutcomes
    from queryable_state.client._routing.dispatcher import Dispatcher

_Result = TypeVar("_Result")

NO_MAP_KEY: Any = object()
"""Default of `map_key`, since None can be a map key."""


class KeyLookups(ClientBase):
    """Client with lookups by key. Errors are raised by the returned future."""

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
        # The same as `_look_up`, inlined for speed.
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
            every = list(keys)
            if one_cut:
                return self._run(_consistent_states(self._dispatcher(), batcher, every))
            encode_all = batcher.encode_all
            try:
                encoded = every if encode_all is None else encode_all(every)
            except QueryableStateError as error:
                raise batcher.key_error(error) from None
        except QueryableStateError as error:
            return self._failed(error)
        future: asyncio.Future[list[KvState | None]] = batcher.new_future()
        if not encoded:
            future.set_result([])
            return future
        outcomes = StateOutcomes(future, len(encoded))
        batcher.add_all(encoded, OutcomeResults(outcomes, range(len(encoded))))
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
            every = list(keys)
            if one_cut:
                return self._run(_consistent_multi_get(self._dispatcher(), batcher, every))
        except QueryableStateError as error:
            return self._failed(error)
        return self._run(_multi_get(batcher, every, look_up_many(batcher, every)))

    def get_map_entry(
        self, job: Job, state_name: str, key: Any, map_key: Any, **options: Unpack[ReadOptions]
    ) -> asyncio.Future[MapEntry]:
        """A future of one entry of a map, without the others; arguments as of `get_kv_state`.

        `UnknownKeyOrNamespaceError` where the map has no such entry.
        """
        return self._look_up(job, state_name, (key, map_key), ENTRY, options)

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
            return self._look_up(job, state_name, key, EXISTS, options)
        return self._look_up(job, state_name, (key, map_key), ENTRY_EXISTS, options)

    def size(
        self, job: Job, state_name: str, key: Any, **options: Unpack[ReadOptions]
    ) -> asyncio.Future[Size]:
        """A future of how much is stored under a key; arguments as of `get_kv_state`.

        `UnknownKeyOrNamespaceError` where nothing is.
        """
        return self._look_up(job, state_name, key, SIZE, options)

    def _look_up(
        self, job: Job, state_name: str, key: Any, operation: Operation, options: ReadOptions
    ) -> asyncio.Future[Any]:
        """Looks up one key together with all other lookups of this turn of the loop."""
        try:
            batcher = self._batcher(job, state_name, options, operation)
        except QueryableStateError as error:
            return self._failed(error)
        return batcher.look_up(key)

    def _run(self, work: Coroutine[Any, Any, _Result]) -> asyncio.Task[_Result]:
        assert self._loop is not None
        return self._loop.create_task(work)


async def _multi_get(batcher: KeyBatcher, keys: list[Any], outcomes: KeyOutcomes) -> MultiGet:
    await outcomes.future
    raise_call_error(batcher, outcomes)
    return MultiGet(keys, outcomes.all())


async def _consistent_multi_get(
    dispatcher: Dispatcher, batcher: KeyBatcher, keys: list[Any]
) -> MultiGet:
    check_snapshot(batcher.options.consistency.wire)
    outcomes = await read_keys_in_snapshot(dispatcher, batcher, keys)
    return MultiGet(keys, outcomes.all())


async def _consistent_states(
    dispatcher: Dispatcher, batcher: KeyBatcher, keys: list[Any]
) -> list[KvState | None]:
    check_snapshot(batcher.options.consistency.wire)
    outcomes = await read_keys_in_snapshot(dispatcher, batcher, keys)
    for failure in outcomes.failures():
        raise failure.copy()
    return [known if isinstance(known, KvState) else None for known in outcomes.by_position]
