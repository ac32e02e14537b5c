"""Broadcast state of a task, and the read-only view that elements of the other stream get."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from queryable_state.streaming.operator_state.broadcast_state import (
    BroadcastState,
    ReadOnlyBroadcastState,
)
from queryable_state.streaming.runtime.operator_states.operator_state import TaskOperatorState
from queryable_state.streaming.runtime.states.cached_state import CacheCodec
from queryable_state.wire.errors import (
    InvalidRequestError,
    KeyTypeError,
    Reason,
    SerializationError,
)
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.operator_state import broadcast_element, split_broadcast_element

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from queryable_state.streaming.descriptors import MapStateDescriptor
    from queryable_state.wire.values.value_codec import ValueCodec


class TaskBroadcastState(TaskOperatorState, BroadcastState[Any, Any]):
    """Entries by encoded map key, stored in the order of these keys.

    So subtasks that hold equal entries store equal bytes.
    """

    def __init__(self, descriptor: MapStateDescriptor, register: Callable[[], None]) -> None:
        super().__init__(descriptor, register)
        self._keys = KeyCodec(descriptor.map_key_type)
        self._entries: dict[bytes, tuple[Any, Any]] | None = None
        """Map key and cached value (None: null) by encoded key; None: not fetched."""

    def get(self, key: Any) -> Any:
        found = self._held().get(self._encoded_key(key))
        return None if found is None else self._given(found[1])

    def contains(self, key: Any) -> bool:
        return self._encoded_key(key) in self._held()

    def put(self, key: Any, value: Any) -> None:
        held = self._held()
        encoded = self._encoded_key(key)
        held[encoded] = (self._keys.decode_all(encoded), self._cached(value))
        self._written = True

    def put_all(self, dict_value: Mapping[Any, Any]) -> None:
        held = self._held()
        # Validate all entries before the first write: an invalid entry changes nothing.
        made = {}
        for key, value in dict_value.items():
            encoded = self._encoded_key(key)
            made[encoded] = (self._keys.decode_all(encoded), self._cached(value))
        held.update(made)
        self._written = True

    def remove(self, key: Any) -> None:
        self._held().pop(self._encoded_key(key), None)
        self._written = True

    def clear(self) -> None:
        self._bound()
        self._entries = {}
        self._written = True

    def items(self) -> list[tuple[Any, Any]]:
        held = self._held()
        return [(held[encoded][0], self._given(held[encoded][1])) for encoded in sorted(held)]

    def keys(self) -> list[Any]:
        return [key for key, _ in self.items()]

    def values(self) -> list[Any]:
        return [value for _, value in self.items()]

    def is_empty(self) -> bool:
        return not self._held()

    def elements(self) -> list[bytes]:
        held = self._held()
        return [
            broadcast_element(encoded, self._data(held[encoded][1])) for encoded in sorted(held)
        ]

    def _adopt(self, codec: ValueCodec) -> None:
        self._codec = codec
        self._cache = CacheCodec.of(codec)

    def _held(self) -> dict[bytes, tuple[Any, Any]]:
        self._bound()
        if self._entries is None:
            entries = map(split_broadcast_element, self._fetched())
            self._entries = {
                key: (self._keys.decode_all(key), self._taken(value)) for key, value in entries
            }
        return self._entries

    def _taken(self, data: bytes) -> Any:
        return None if data == self._codec.null else self._cache.take(data)

    def _given(self, cached: Any) -> Any:
        return None if cached is None else self._cache.give(cached)

    def _data(self, cached: Any) -> bytes:
        return self._codec.null if cached is None else self._cache.data(cached)

    def _cached(self, value: Any) -> Any:
        if value is None:
            return None
        try:
            return self._cache.hold(value)
        except SerializationError as problem:
            raise self._unfit("value", self._codec.type_info, problem) from problem

    def _encoded_key(self, key: Any) -> bytes:
        try:
            return self._keys.encode(key)
        except KeyTypeError as problem:
            raise KeyTypeError(
                f"{self._where()}: the map key {key!r} is not of type {self._keys.type_info}: "
                f"{problem}"
            ) from problem


class ReadOnlyBroadcastView(ReadOnlyBroadcastState[Any, Any]):
    """A broadcast state without its writing methods."""

    def __init__(self, state: TaskBroadcastState) -> None:
        self._state = state
        self._name = state.descriptor.name

    def get(self, key: Any) -> Any:
        return self._state.get(key)

    def contains(self, key: Any) -> bool:
        return self._state.contains(key)

    def items(self) -> list[tuple[Any, Any]]:
        return self._state.items()

    def keys(self) -> list[Any]:
        return self._state.keys()

    def values(self) -> list[Any]:
        return self._state.values()

    def is_empty(self) -> bool:
        return self._state.is_empty()

    def clear(self) -> NoReturn:
        """Raises InvalidRequestError: only a broadcast element may change the state."""
        self._refuse("clear()")

    def __getattr__(self, method: str) -> NoReturn:
        if method in ("put", "put_all", "remove"):
            self._refuse(f"{method}()")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {method!r}")

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        self._refuse("an assignment")

    def __delitem__(self, key: Any) -> NoReturn:
        self._refuse("del")

    def _refuse(self, what: str) -> NoReturn:
        raise InvalidRequestError(
            f"broadcast state {self._name!r}: {what} in process_element would change it on one "
            "subtask only: write it in process_broadcast_element",
            reason=Reason.UNSUPPORTED,
        )
