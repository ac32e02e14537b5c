"""Key selection of a stream: by columns or by a Python function."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from queryable_state.wire.errors import KeyTypeError
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.schema.types import Field, Kind, TypeInfo

if TYPE_CHECKING:
    from queryable_state.streaming.graph.elements import Columns


@dataclass(frozen=True, kw_only=True)
class KeySelector:
    """The key of each element."""

    columns: tuple[str, ...]
    """The key's columns."""
    key_type: TypeInfo
    """Type of the only column; for several columns a ROW or TUPLE with one field per column."""
    is_computed: bool = False
    """True if a function computes the key: the columns are not part of the element."""
    is_pickled: bool = False
    """True if the only column is a pickle of the key, because the key's type is unknown."""

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
    def value_type(self) -> TypeInfo:
        """Type of the key: a ROW of several columns, or the type of the only column."""
        if len(self.columns) == 1:
            return self.key_type
        fields = (
            Field(field.name or f"f{position}", field.type)
            for position, field in enumerate(self.key_type.fields)
        )
        return TypeInfo(Kind.ROW, fields=tuple(fields))

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
    def computed(key_type: TypeInfo | None, columns: Columns) -> KeySelector:
        """A key that a function computes for elements of these columns; None: of unknown type."""
        is_pickled = key_type is None
        key_type = _usable(TypeInfo(Kind.BINARY) if key_type is None else key_type)
        count = len(key_type.fields) if key_type.kind in (Kind.ROW, Kind.TUPLE) else 1
        stems = ["key"] if count == 1 else [f"key_{number}" for number in range(count)]
        return KeySelector(
            columns=tuple(columns.free_name(stem) for stem in stems),
            key_type=key_type,
            is_computed=True,
            is_pickled=is_pickled,
        )


def _usable(key_type: TypeInfo) -> TypeInfo:
    """Returns the type; raises KeyTypeError if it cannot be a key type."""
    try:
        KeyCodec(key_type)
    except KeyTypeError as problem:
        raise KeyTypeError(f"key_by: {problem}") from None
    return key_type
