"""Look-ups by key, by subtask, of windows and of timers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from queryable_state.client._arguments import (
    checked_range,
    checked_window_range,
    key_list,
    running_loop,
)
from queryable_state.client._client_base import ClientBase
from queryable_state.client._queries.many_keys import (
    look_up_many,
    multi_get,
    multi_get_of_one_batch,
    states_of_one_batch,
    subtasks_of,
)
from queryable_state.client._reading.operation import (
    ENTRY,
    ENTRY_EXISTS,
    EXISTS,
    NEWEST_WINDOW,
    SIZE,
    SLICE,
    TIMERS,
    WINDOWS,
)
from queryable_state.client._reading.operator_state import OperatorState, SubtaskState
from queryable_state.client._reading.outcomes import OutcomeResults, StateOutcomes
from queryable_state.v1 import registration_pb2
from queryable_state.wire.errors import InvalidRequestError, QueryableStateError, QueryTimeoutError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable
    from datetime import datetime
    from typing import Unpack

    from queryable_state.client._arguments import Job
    from queryable_state.client._read_options import ReadOptions, TypedReadOptions
    from queryable_state.client._reading.elements import ListSlice, MapEntry, Presence, Size
    from queryable_state.client._reading.multi_get import MultiGet
    from queryable_state.client._reading.operation import Operation
    from queryable_state.client._reading.states import KvState, ListState, MapState
    from queryable_state.client._reading.timed.key_windows import KeyWindows
    from queryable_state.client._reading.timed.pending_timers import PendingTimers
    from queryable_state.client._typed_descriptor import S, TypedDescriptor
    from queryable_state.wire.schema.type_variables import K, T, V

NO_MAP_KEY: Any = object()
"""Default of `map_key`, since None can be a map key."""

_Result = TypeVar("_Result")


class Lookups(ClientBase):
    """Client with look-ups. Errors are raised by the returned future.

    Each subtask of operator state is a key of `get_kv_state` and all other look-ups, too: its
    index, from 0.
    """

    @overload
    def get_kv_state(
        self,
        job: Job,
        state_name: str,
        key: Any,
        *,
        descriptor: TypedDescriptor[S],
        **options: Unpack[TypedReadOptions],
    ) -> asyncio.Future[S]: ...

    @overload
    def get_kv_state(
        self, job: Job, state_name: str, key: Any, **options: Unpack[ReadOptions]
    ) -> asyncio.Future[KvState]: ...

    def get_kv_state(
        self, job: Job, state_name: str, key: Any, **options: Any
    ) -> asyncio.Future[Any]:
        """Returns a future of the state under one key.

        Args:
            job: Job id or name; None if only one job has the state.
            state_name: Queryable name of the state.
            key: A value of the registered key type.
            key_type: Expected key type: a type, Spark DDL or a pyspark `DataType`.
            descriptor: Expected state: any object with `kind`, `value_type` and, for a map,
                `map_key_type`.
            window: Window of a state with windows, a `TimeWindow`; None for a state without.
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
            InvalidRequestError: An argument is invalid.
            ClientUnusableError: The client is of another event loop or process;
                `ClientClosedError`, a subclass: it is closed.
        """
        batcher = self._batchers.get((job, state_name))
        if (
            batcher is None
            or options
            # On another loop than the calls before; the check once a turn of the loop is enough.
            or (not batcher.scheduled and running_loop() is not self._loop)
        ):
            try:
                batcher = self._batcher(job, state_name, cast("ReadOptions", options))
            except QueryableStateError as error:
                return self._failed(error)
        return batcher.look_up(key)

    @overload
    def get_map_entry(
        self,
        job: Job,
        state_name: str,
        key: Any,
        map_key: Any,
        *,
        descriptor: TypedDescriptor[MapState[K, V]],
        **options: Unpack[TypedReadOptions],
    ) -> asyncio.Future[MapEntry[V]]: ...

    @overload
    def get_map_entry(
        self, job: Job, state_name: str, key: Any, map_key: Any, **options: Unpack[ReadOptions]
    ) -> asyncio.Future[MapEntry]: ...

    def get_map_entry(
        self, job: Job, state_name: str, key: Any, map_key: Any, **options: Any
    ) -> asyncio.Future[Any]:
        """Returns a future of one entry of a map state; does not read the other entries.

        Arguments and errors as in `get_kv_state`; `map_key` is a value of the registered map key
        type. Raises `UnknownKeyOrNamespaceError` if the map has no such entry, and
        `InvalidRequestError` if the state is not a map.
        """
        return self._look_up(job, state_name, (key, map_key), ENTRY, cast("ReadOptions", options))

    @overload
    def get_list_slice(
        self,
        job: Job,
        state_name: str,
        key: Any,
        start: int = 0,
        limit: int | None = None,
        *,
        descriptor: TypedDescriptor[ListState[T]],
        **options: Unpack[TypedReadOptions],
    ) -> asyncio.Future[ListSlice[T]]: ...

    @overload
    def get_list_slice(
        self,
        job: Job,
        state_name: str,
        key: Any,
        start: int = 0,
        limit: int | None = None,
        **options: Unpack[ReadOptions],
    ) -> asyncio.Future[ListSlice]: ...

    def get_list_slice(
        self,
        job: Job,
        state_name: str,
        key: Any,
        start: int = 0,
        limit: int | None = None,
        **options: Any,
    ) -> asyncio.Future[Any]:
        """Returns a future of some elements of a list state; no others are transferred.

        Args:
            job: Same as in `get_kv_state`, like `state_name`, `key` and `options`.
            state_name: Queryable name of the state.
            key: A value of the registered key type.
            start: Position of the first element, from 0; negative: counted from the end, so that
                -10 reads the last ten.
            limit: At most this many elements; None: all up to the end.

        The result also has the number of elements of the whole list. It is empty if the list
        has no element at `start`. Raises the errors of `get_kv_state`, and `InvalidRequestError`
        if the state is not a list.
        """
        try:
            wanted = checked_range(start, limit)
        except InvalidRequestError as error:
            return self._failed(error)
        return self._look_up(job, state_name, (key, wanted), SLICE, cast("ReadOptions", options))

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
                return self._run(states_of_one_batch(self._dispatcher(), batcher, every))
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
                return self._run(multi_get_of_one_batch(self._dispatcher(), batcher, every))
        except QueryableStateError as error:
            return self._failed(error)
        return self._run(multi_get(batcher, every, look_up_many(batcher, every)))

    def get_windows(
        self,
        job: Job,
        state_name: str,
        key: Any,
        start: int | datetime | None = None,
        end: int | datetime | None = None,
        *,
        newest: int | None = None,
        **options: Unpack[ReadOptions],
    ) -> asyncio.Future[KeyWindows]:
        """Returns a future of the windows of one key with their states, all from one batch.

        Args:
            job: Same as in `get_kv_state`, like `state_name`, `key` and `options`.
            state_name: Queryable name of a state with windows.
            key: A value of the registered key type.
            start: Only windows that start at this time or later: milliseconds since the epoch, or
                a `datetime` with a time zone; None: from the first window.
            end: Only windows that start before this time; None: to the last window.
            newest: At most this many windows, those that start last; None: all.

        The result is a mapping of `TimeWindow` to state, by start and then end; empty if the key
        has no such window. Raises the errors of `get_kv_state`, but none for a missing key, and
        `InvalidRequestError` for a state without windows.
        """
        try:
            wanted = checked_window_range(start, end, newest)
        except InvalidRequestError as error:
            return self._failed(error)
        return self._look_up(job, state_name, (key, wanted), WINDOWS, options)

    def get_newest_window(
        self, job: Job, state_name: str, key: Any, **options: Unpack[ReadOptions]
    ) -> asyncio.Future[KvState]:
        """Returns a future of the state of the window of a key that starts last.

        Its `window` is that window. Arguments and errors as in `get_kv_state`;
        `UnknownKeyOrNamespaceError` if the key has no window, and `InvalidRequestError` for a
        state without windows.
        """
        wanted = checked_window_range(None, None, 1)
        return self._look_up(job, state_name, (key, wanted), NEWEST_WINDOW, options)

    def get_timers(
        self, job: Job, state_name: str, key: Any, **options: Unpack[ReadOptions]
    ) -> asyncio.Future[PendingTimers]:
        """Returns a future of the pending timers of one key, in the order in which they fire.

        `state_name` is the uid of the operator and ".timers"; `list_states` shows it with kind
        TIMER. `window` selects the timers of one window. Arguments and errors as in
        `get_kv_state`, but a key without timers is an empty result.
        """
        return self._look_up(job, state_name, key, TIMERS, options)

    async def get_operator_state(
        self,
        job: Job,
        state_name: str,
        subtask: int | None = None,
        *,
        one_cut: bool = False,
        **options: Unpack[ReadOptions],
    ) -> OperatorState:
        """Returns the operator state of one subtask (None: of all).

        Args:
            job: Same as in `get_kv_state`, like all options not listed here.
            state_name: Queryable name of a list, union list or broadcast state.
            subtask: Index of a subtask, from 0. None reads all subtasks of a list or union list,
                and the first one of a broadcast state, which is equal on all.
            one_cut: Read all subtasks from one committed batch, across all owners.

        A subtask that has written nothing has an empty state. Raises the errors of
        `get_kv_state`, except that of a missing key; `InvalidRequestError` if the state is keyed
        or there is no such subtask; with `one_cut` also `VersionGoneError`.
        """
        batcher = self._batcher(job, state_name, options)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + batcher.options.timeout_s
        locator = self._dispatcher().locator
        while True:
            located = await locator.located(batcher.handle, deadline)
            subtasks = subtasks_of(located, subtask)
            results = await self.multi_get(job, state_name, subtasks, one_cut=one_cut, **options)
            now = batcher.handle.located
            if now is None or now.ranges == located.ranges:
                break
            # The operator runs at another parallelism: the answers may be of both.
            if loop.time() >= deadline:
                raise QueryTimeoutError(
                    f"{located.describe()}: its parallelism changed during each read within "
                    f"{batcher.options.timeout_s:g} s: read again"
                )
        kind = located.registration.kind
        broadcast = kind == registration_pb2.BROADCAST
        return OperatorState(
            registration_pb2.StateKind.Name(kind),
            [SubtaskState.of(result, broadcast=broadcast) for result in results],
        )

    def get_broadcast_entry(
        self, job: Job, state_name: str, map_key: Any, **options: Unpack[ReadOptions]
    ) -> asyncio.Future[MapEntry]:
        """Returns a future of one entry of a broadcast state; does not read the other entries.

        Arguments and errors as in `get_map_entry`; the first subtask answers.
        """
        return self._look_up(job, state_name, (0, map_key), ENTRY, options)

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
