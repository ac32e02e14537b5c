"""Lookups by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast, overload

from queryable_state.client._arguments import checked_range, running_loop
from queryable_state.client._multi_lookups import MultiLookups
from queryable_state.client._reading.operation import ENTRY, ENTRY_EXISTS, EXISTS, SIZE, SLICE
from queryable_state.wire.errors import InvalidRequestError, QueryableStateError

if TYPE_CHECKING:
    import asyncio
    from typing import Unpack

    from queryable_state.client._arguments import Job
    from queryable_state.client._read_options import ReadOptions, TypedReadOptions
    from queryable_state.client._reading.elements import ListSlice, MapEntry, Presence, Size
    from queryable_state.client._reading.operation import Operation
    from queryable_state.client._reading.states import KvState, ListState, MapState
    from queryable_state.client._typed_descriptor import S, TypedDescriptor
    from queryable_state.wire.schema.type_variables import K, T, V

NO_MAP_KEY: Any = object()
"""Default of `map_key`, since None can be a map key."""


class KeyLookups(MultiLookups):
    """Client with lookups by key. Errors are raised by the returned future."""

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
            ClientUnusableError: The client is of another event loop; `ClientClosedError`, a
                subclass: it is closed.
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

    def _look_up(
        self, job: Job, state_name: str, key: Any, operation: Operation, options: ReadOptions
    ) -> asyncio.Future[Any]:
        """Looks up one key together with all other lookups of this turn of the loop."""
        try:
            batcher = self._batcher(job, state_name, options, operation)
        except QueryableStateError as error:
            return self._failed(error)
        return batcher.look_up(key)
