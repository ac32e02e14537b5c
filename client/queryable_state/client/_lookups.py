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
        """Returns a future of the state under one key.

        Args:
            job: Job id or name; None if only one job has the state.
            state_name: Queryable name of the state.
            key: A value of the registered key type.
            key_type: Expected key type: a type, Spark DDL or a pyspark `DataType`.
            descriptor: Expected state: any object with `kind`, `value_type` and, for a map,
                `map_key_type`.
            namespace: Encoded namespace; None: the state outside windows.
            consistency: Which batches the answer may come from, a `Consistency`.
            allow_incomplete: Accept an answer from key groups that lost older state;
                `info.complete_since_batch` is the first complete batch.
            timeout_s: Seconds until the query fails; None: the client's timeout.

        The future raises:
            UnknownKeyOrNamespaceError: Nothing is stored under the key.
            KeyTypeError: `key` or `key_type` does not match the registered key type.
            DescriptorMismatchError: `descriptor` does not match the registered state.
            UnknownJobError, UnknownStateError, AmbiguousJobError: The name matches no state, or
                several.
            QueryTimeoutError: No server has answered within `timeout_s`. If an attempt has
                failed, the error of the last attempt is raised instead.
            InvalidRequestError: An argument is invalid. `ClientClosedError`, a subclass, if the
                client is closed.
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
        """Returns one future of the states under many keys.

        Args:
            job: Same as in `get_kv_state`, like `state_name` and `options`.
            state_name: Queryable name of the state.
            keys: Values of the registered key type.
            one_cut: Read all keys from one committed batch, across all owners.

        The result is aligned with `keys`; it is None for a key without a state. The first key
        that fails fails the call. The future raises the errors of `get_kv_state`, and with
        `one_cut` also `VersionGoneError` if no owner has the common batch any more.
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
        """Returns a future of one result for each of many keys, aligned with `keys`.

        Args:
            job: Same as in `get_kv_state`, like `state_name` and `options`.
            state_name: Queryable name of the state.
            keys: Values of the registered key type.
            one_cut: Read all keys from one committed batch, across all owners.

        A key may fail alone, for example if its owner is unreachable; its `KeyResult` has the
        error. The future raises only errors of the whole call: an unknown or ambiguous job, an
        unknown state, a mismatching descriptor, an invalid argument or a closed client.
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
        """Returns a future of one entry of a map state; does not read the other entries.

        Arguments and errors as in `get_kv_state`; `map_key` is a value of the registered map key
        type. Raises `UnknownKeyOrNamespaceError` if the map has no such entry, and
        `InvalidRequestError` if the state is not a map.
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
        """Returns a future of the presence of a key or, with `map_key`, of a map entry.

        No value is transferred. Arguments and errors as in `get_kv_state`, but a missing key is
        a result, not an error.
        """
        if map_key is NO_MAP_KEY:
            return self._look_up(job, state_name, key, EXISTS, options)
        return self._look_up(job, state_name, (key, map_key), ENTRY_EXISTS, options)

    def size(
        self, job: Job, state_name: str, key: Any, **options: Unpack[ReadOptions]
    ) -> asyncio.Future[Size]:
        """Returns a future of the number of elements and the bytes stored under a key.

        Arguments and errors as in `get_kv_state`.
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
