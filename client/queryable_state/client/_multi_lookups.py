"""Lookups of many keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from queryable_state.client._arguments import key_list
from queryable_state.client._batching.multi_lookup import (
    look_up_many,
    raise_call_error,
    raise_if_unread,
)
from queryable_state.client._client_base import ClientBase
from queryable_state.client._reading.multi_get import MultiGet
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
    from queryable_state.client._read_options import ReadOptions, TypedReadOptions
    from queryable_state.client._reading.outcomes import KeyOutcomes
    from queryable_state.client._routing.dispatcher import Dispatcher
    from queryable_state.client._typed_descriptor import S, TypedDescriptor

_Result = TypeVar("_Result")


class MultiLookups(ClientBase):
    """Client with lookups of many keys. Errors are raised by the returned future."""

    @overload
    def get_kv_states(
        self,
        job: Job,
        state_name: str,
        keys: Iterable[Any],
        *,
        one_cut: bool = False,
        descriptor: TypedDescriptor[S],
        **options: Unpack[TypedReadOptions],
    ) -> asyncio.Future[list[S | None]]: ...

    @overload
    def get_kv_states(
        self,
        job: Job,
        state_name: str,
        keys: Iterable[Any],
        *,
        one_cut: bool = False,
        **options: Unpack[ReadOptions],
    ) -> asyncio.Future[list[KvState | None]]: ...

    def get_kv_states(
        self,
        job: Job,
        state_name: str,
        keys: Iterable[Any],
        *,
        one_cut: bool = False,
        **options: Any,
    ) -> asyncio.Future[Any]:
        """Returns one future of the states under many keys.

        Args:
            job: Same as in `get_kv_state`, like `state_name` and `options`.
            state_name: Queryable name of the state.
            keys: Values of the registered key type, in a list; a text or bytes is refused.
            one_cut: Read all keys from one committed batch, across all owners.

        The result is aligned with `keys`; it is None for a key without a state. The first key
        that fails fails the call. The future raises the errors of `get_kv_state`, and with
        `one_cut` also `VersionGoneError` if no owner has the common batch any more.
        """
        try:
            batcher = self._batcher(job, state_name, cast("ReadOptions", options))
            every = key_list(keys)
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
            keys: Values of the registered key type, in a list; a text or bytes is refused.
            one_cut: Read all keys from one committed batch, across all owners.

        A key may fail alone, for example if its owner is unreachable; its `KeyResult` has the
        error, and the result is not `complete`. The future raises the error if not one key could
        be read, for example because no server answers, and errors of the whole call: an unknown or
        ambiguous job, an unknown state, a mismatching descriptor, an invalid argument or a closed
        client.
        """
        try:
            batcher = self._batcher(job, state_name, options)
            every = key_list(keys)
            if one_cut:
                return self._run(_consistent_multi_get(self._dispatcher(), batcher, every))
        except QueryableStateError as error:
            return self._failed(error)
        return self._run(_multi_get(batcher, every, look_up_many(batcher, every)))

    def _run(self, work: Coroutine[Any, Any, _Result]) -> asyncio.Task[_Result]:
        assert self._loop is not None
        return self._loop.create_task(work)


async def _multi_get(batcher: KeyBatcher, keys: list[Any], outcomes: KeyOutcomes) -> MultiGet:
    await outcomes.future
    raise_call_error(batcher, outcomes)
    raise_if_unread(outcomes)
    return MultiGet(keys, outcomes.all())


async def _consistent_multi_get(
    dispatcher: Dispatcher, batcher: KeyBatcher, keys: list[Any]
) -> MultiGet:
    check_snapshot(batcher.options.consistency.wire)
    outcomes = await read_keys_in_snapshot(dispatcher, batcher, keys)
    raise_if_unread(outcomes)
    return MultiGet(keys, outcomes.all())


async def _consistent_states(
    dispatcher: Dispatcher, batcher: KeyBatcher, keys: list[Any]
) -> list[KvState | None]:
    check_snapshot(batcher.options.consistency.wire)
    outcomes = await read_keys_in_snapshot(dispatcher, batcher, keys)
    for failure in outcomes.failures():
        raise failure.copy()
    return [known if isinstance(known, KvState) else None for known in outcomes.by_position]
