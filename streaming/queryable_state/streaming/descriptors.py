"""State descriptors: names and types of states, which tasks register with the coordinator.

For type checkers each carries the Python types of its state. `RuntimeContext` gives states of these
types, and a query with the descriptor gives the type that is declared as `_answer`, an attribute
that no descriptor has at run time.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Generic, cast, overload

from queryable_state.streaming.runtime.pickling import pickled
from queryable_state.streaming.state_descriptor import StateDescriptor, declared_type
from queryable_state.v1.registration_pb2 import StateKind
from queryable_state.wire.errors import InvalidRequestError, KeyTypeError, SerializationError
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.schema.type_variables import K, T, V
from queryable_state.wire.schema.types import TypeInfo, Types
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    from queryable_state import client

__all__ = [
    "ListStateDescriptor",
    "MapStateDescriptor",
    "StateDescriptor",
    "ValueStateDescriptor",
    "declared_type",
]


class ValueStateDescriptor(StateDescriptor, Generic[T]):
    """Descriptor of a `ValueState`.

    `default_value` is deprecated, as in Flink: `value()` returns it if the key has no value. It is
    not stored, so queries do not see it.
    """

    kind = StateKind.VALUE

    _answer: client.ValueState[T]

    @overload
    def __init__(
        self, name: str, value_type_info: TypeInfo[T] | type[T], default_value: T | None = None
    ) -> None: ...

    @overload
    def __init__(
        self, name: str, value_type_info: object, default_value: object = None
    ) -> None: ...

    def __init__(self, name: str, value_type_info: object, default_value: object = None) -> None:
        super().__init__(name, declared_type(name, "value_type_info", value_type_info))
        if default_value is not None:
            warnings.warn(
                f"state {name!r}: default_value is deprecated: replace None where value() is read",
                DeprecationWarning,
                stacklevel=2,
            )
            try:
                self._default_value = self._codec.encode(default_value)
            except SerializationError as problem:
                raise InvalidRequestError(f"state {name!r}: default_value: {problem}") from None

    @property
    def type_info(self) -> TypeInfo[T]:
        return super().type_info

    def get_default_value(self) -> T | None:
        """A new copy of the default value; None if there is none."""
        return (
            None
            if self._default_value is None
            else cast("T", self._codec.decode(self._default_value))
        )

    @property
    def _codec(self) -> ValueCodec:
        return ValueCodec.of(self.type_info, pickler=pickled, unpickle=True)


class ListStateDescriptor(StateDescriptor, Generic[T]):
    """Descriptor of a `ListState`."""

    kind = StateKind.LIST

    _answer: client.ListState[T]

    @overload
    def __init__(self, name: str, elem_type_info: TypeInfo[T] | type[T]) -> None: ...

    @overload
    def __init__(self, name: str, elem_type_info: object) -> None: ...

    def __init__(self, name: str, elem_type_info: object) -> None:
        super().__init__(name, declared_type(name, "elem_type_info", elem_type_info))

    @property
    def type_info(self) -> TypeInfo[list[T]]:
        return Types.LIST(self.get_element_type_info())

    def get_element_type_info(self) -> TypeInfo[T]:
        """Type of the elements."""
        return super().type_info


class MapStateDescriptor(StateDescriptor, Generic[K, V]):
    """Descriptor of a `MapState`."""

    kind = StateKind.MAP

    _answer: client.MapState[K, V]

    @overload
    def __init__(
        self,
        name: str,
        key_type_info: TypeInfo[K] | type[K],
        value_type_info: TypeInfo[V] | type[V],
    ) -> None: ...

    @overload
    def __init__(self, name: str, key_type_info: object, value_type_info: object) -> None: ...

    def __init__(self, name: str, key_type_info: object, value_type_info: object) -> None:
        super().__init__(name, declared_type(name, "value_type_info", value_type_info))
        self._map_key_type = declared_type(name, "key_type_info", key_type_info)
        try:
            KeyCodec(self._map_key_type)
        except KeyTypeError as problem:
            raise KeyTypeError(f"state {name!r}: key_type_info: map {problem}") from None

    @property
    def map_key_type(self) -> TypeInfo[K]:
        return self._map_key_type

    @property
    def type_info(self) -> TypeInfo[dict[K, V]]:
        return Types.MAP(self.get_key_type_info(), self.get_value_type_info())

    def get_key_type_info(self) -> TypeInfo[K]:
        """Type of the map keys."""
        return self._map_key_type

    def get_value_type_info(self) -> TypeInfo[V]:
        """Type of the map values."""
        return super().type_info
