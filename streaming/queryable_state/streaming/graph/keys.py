"""Key selection of a stream: by columns or by a Python function."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from queryable_state.streaming.runtime.columns.arrow_types import to_arrow_value
from queryable_state.wire.errors import KeyTypeError
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.schema.types import Field, Kind, TypeInfo

if TYPE_CHECKING:
    from collections.abc import Callable

    from queryable_state.streaming.graph.elements import Columns


@dataclass(frozen=True, kw_only=True)
class KeySelector:
    """The key of each element."""

    columns: tuple[str, ...]
    """The key's columns; if a function computes them, they are added to the stream."""
    key_type: TypeInfo
    """Type of the only column; for several columns a ROW or TUPLE with one field per column."""
    function: Callable[[Any], Any] | None = None
    """Computes the key of an element; None: the key columns exist in the stream."""

    @property
    def fields(self) -> tuple[Field, ...]:
        """The key's columns with their types."""
        if len(self.columns) == 1:
            return (Field(self.columns[0], self.key_type),)
        return tuple(
            Field(name, field.type)
            for name, field in zip(self.columns, self.key_type.fields, strict=True)
        )

    @property
    def spark_function(self) -> Callable[[Any], Any]:
        """`function`, with results of the classes that Spark understands."""
        assert self.function is not None, "the key columns exist in the stream"
        if not _has_unknown_values(self.key_type):
            return self.function
        return _SparkFunction(self.function, self.key_type)

    @staticmethod
    def by_columns(names: tuple[str, ...], columns: Columns) -> KeySelector:
        """Selects columns of the stream as the key."""
        fields = tuple(Field(name, columns.type_of(name, "key_by")) for name in names)
        repeated = sorted({name for name in names if names.count(name) > 1})
        if repeated:
            raise KeyTypeError(f"key_by: column {repeated[0]!r} is named twice")
        if len(fields) == 1:
            return KeySelector(columns=names, key_type=_usable(fields[0].type))
        return KeySelector(columns=names, key_type=_usable(TypeInfo(Kind.ROW, fields=fields)))

    @staticmethod
    def by_function(
        function: Callable[[Any], Any], key_type: TypeInfo, columns: Columns
    ) -> KeySelector:
        """Selects the return value of a function as the key."""
        _usable(key_type)
        count = len(key_type.fields) if key_type.kind in (Kind.ROW, Kind.TUPLE) else 1
        stems = ["key"] if count == 1 else [f"key_{number}" for number in range(count)]
        return KeySelector(
            columns=tuple(columns.free_name(stem) for stem in stems),
            key_type=key_type,
            function=function,
        )


class _SparkFunction:
    """A key function whose `Instant`s are datetimes and whose BIG_INTs are decimals."""

    def __init__(self, function: Callable[[Any], Any], key_type: TypeInfo) -> None:
        self._function = function
        self._key_type = key_type

    def __call__(self, element: Any) -> Any:
        key = self._function(element)
        return None if key is None else self._convert(key)

    @cached_property
    def _convert(self) -> Callable[[Any], Any]:
        convert = to_arrow_value(self._key_type)
        assert convert is not None
        return convert


def _has_unknown_values(info: TypeInfo) -> bool:
    return info.kind in (Kind.INSTANT, Kind.BIG_INT) or any(
        _has_unknown_values(field.type) for field in info.fields
    )


def _usable(key_type: TypeInfo) -> TypeInfo:
    """Returns the type; raises KeyTypeError if it cannot be a key type."""
    try:
        KeyCodec(key_type)
    except KeyTypeError as problem:
        raise KeyTypeError(f"key_by: {problem}") from None
    return key_type
