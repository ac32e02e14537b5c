"""Blocking lookups by key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

from queryable_state.client._arguments import key_list
from queryable_state.client._lookups import NO_MAP_KEY
from queryable_state.client.blocking._client_base import ClientBase

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Iterable
    from typing import Unpack

    from queryable_state.client._arguments import Job
    from queryable_state.client._read_options import ReadOptions, TypedReadOptions
    from queryable_state.client._reading.elements import ListSlice, MapEntry, Presence, Size
    from queryable_state.client._reading.multi_get import MultiGet
    from queryable_state.client._reading.states import KvState, ListState, MapState
    from queryable_state.client._typed_descriptor import S, TypedDescriptor
    from queryable_state.wire.schema.type_variables import K, T, V


class KeyLookups(ClientBase):
    """Blocking client with lookups by key."""

    @overload
    def get_kv_state(
        self,
        job: Job,
        state_name: str,
        key: Any,
        *,
        descriptor: TypedDescriptor[S],
        **options: Unpack[TypedReadOptions],
    ) -> S: ...

    @overload
    def get_kv_state(
        self, job: Job, state_name: str, key: Any, **options: Unpack[ReadOptions]
    ) -> KvState: ...

    def get_kv_state(self, job: Job, state_name: str, key: Any, **options: Any) -> Any:
        """Returns the state under one key; raises `UnknownKeyOrNamespaceError` if there is none."""
        return self._call(self._client.get_kv_state, job, state_name, key, **options)

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
    ) -> list[S | None]: ...

    @overload
    def get_kv_states(
        self,
        job: Job,
        state_name: str,
        keys: Iterable[Any],
        *,
        one_cut: bool = False,
        **options: Unpack[ReadOptions],
    ) -> list[KvState | None]: ...

    def get_kv_states(
        self,
        job: Job,
        state_name: str,
        keys: Iterable[Any],
        *,
        one_cut: bool = False,
        **options: Any,
    ) -> Any:
        """Returns the states under many keys, aligned with `keys`; None for a key without one."""
        call: Callable[..., asyncio.Future[Any]] = self._client.get_kv_states
        return self._call(call, job, state_name, key_list(keys), one_cut=one_cut, **options)

    def multi_get(
        self,
        job: Job,
        state_name: str,
        keys: Iterable[Any],
        *,
        one_cut: bool = False,
        **options: Unpack[ReadOptions],
    ) -> MultiGet:
        """Returns one result for each of many keys, aligned with `keys`; a key may fail alone.

        Raises the error if not one key could be read.
        """
        call = self._client.multi_get
        return self._call(call, job, state_name, key_list(keys), one_cut=one_cut, **options)

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
    ) -> MapEntry[V]: ...

    @overload
    def get_map_entry(
        self, job: Job, state_name: str, key: Any, map_key: Any, **options: Unpack[ReadOptions]
    ) -> MapEntry: ...

    def get_map_entry(
        self, job: Job, state_name: str, key: Any, map_key: Any, **options: Any
    ) -> Any:
        """Returns one entry of a map state; does not read the other entries."""
        return self._call(self._client.get_map_entry, job, state_name, key, map_key, **options)

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
    ) -> ListSlice[T]: ...

    @overload
    def get_list_slice(
        self,
        job: Job,
        state_name: str,
        key: Any,
        start: int = 0,
        limit: int | None = None,
        **options: Unpack[ReadOptions],
    ) -> ListSlice: ...

    def get_list_slice(
        self,
        job: Job,
        state_name: str,
        key: Any,
        start: int = 0,
        limit: int | None = None,
        **options: Any,
    ) -> Any:
        """Returns some elements of a list state; no others are transferred."""
        call: Callable[..., asyncio.Future[Any]] = self._client.get_list_slice
        return self._call(call, job, state_name, key, start, limit, **options)

    def contains(
        self,
        job: Job,
        state_name: str,
        key: Any,
        map_key: Any = NO_MAP_KEY,
        **options: Unpack[ReadOptions],
    ) -> Presence:
        """Returns the presence of a key or, with `map_key`, of a map entry."""
        return self._call(self._client.contains, job, state_name, key, map_key, **options)

    def size(self, job: Job, state_name: str, key: Any, **options: Unpack[ReadOptions]) -> Size:
        """Returns the number of elements and the bytes stored under a key."""
        return self._call(self._client.size, job, state_name, key, **options)
