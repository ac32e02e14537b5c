"""Types of keys and values, independent of the language.

A `TypeInfo` crosses the wire as `queryable_state.v1.TypeInfo`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic

from queryable_state.v1 import types_pb2
from queryable_state.wire.errors import InvalidRequestError, Reason
from queryable_state.wire.schema.kinds import PYFLINK_NAMES, SIMPLE_NAMES, Kind
from queryable_state.wire.schema.type_variables import T_co

__all__ = [
    "MAX_DEPTH",
    "Field",
    "Kind",
    "SerializerFormat",
    "TypeInfo",
    "given",
    "without_nullable",
]

if TYPE_CHECKING:
    from queryable_state.wire.schema.type_serializer import TypeSerializer

MAX_DEPTH = 32
"""Levels that a type may nest; decoding a value recurses once a level."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a ROW (named) or TUPLE (name empty)."""

    name: str
    type: TypeInfo


@dataclass(frozen=True, slots=True)
class SerializerFormat:
    """The snapshot of a serializer as it is stored."""

    name: str
    version: int
    configuration: bytes

    def to_proto(self) -> types_pb2.SerializerSnapshot:
        """The format as a message."""
        return types_pb2.SerializerSnapshot(
            name=self.name, version=self.version, configuration=self.configuration
        )

    @staticmethod
    def from_proto(proto: types_pb2.SerializerSnapshot) -> SerializerFormat:
        """The format of a message."""
        return SerializerFormat(proto.name, proto.version, proto.configuration)


@dataclass(frozen=True, slots=True)
class TypeInfo(Generic[T_co]):
    """A type; equal types are equal, and usable as dictionary keys.

    `str` and `repr` are PyFlink's texts; within a format string it is Spark's `simple_string`.
    The type variable is the Python type of its values, for type checkers only.
    """

    kind: Kind
    precision: int = 0
    """DECIMAL: total digits, 1 to 38."""
    scale: int = 0
    """DECIMAL: digits after the decimal point."""
    fields: tuple[Field, ...] = ()
    """ROW and TUPLE: the fields in the order of their values."""
    key: TypeInfo | None = None
    """MAP: the type of the keys."""
    element: TypeInfo | None = None
    """LIST: the type of the elements; MAP: the type of the values."""
    serializer_format: SerializerFormat | None = None
    """CUSTOM: the format of the bytes."""
    nullable: bool = False
    """In the type of a key: nulls are keys, too. Any part of a value may be null without it."""
    serializer: TypeSerializer[Any] | None = field(default=None, compare=False, repr=False)
    """CUSTOM: the serializer in the program that declared the type; None: values stay bytes. It is
    not part of the type and never leaves its program."""
    python_class: type | None = field(default=None, compare=False, repr=False)
    """ROW: the dataclass, NamedTuple or TypedDict that its values are delivered as in the process
    that declared the type; None: `Row`. It is not part of the type and never leaves its program."""
    depth: int = field(init=False, repr=False, compare=False, default=1)
    """Levels of nesting, at most `MAX_DEPTH`."""

    def __post_init__(self) -> None:
        _check_shape(self)
        children = [f.type for f in self.fields]
        children += [child for child in (self.key, self.element) if child is not None]
        depth = 1 + max((child.depth for child in children), default=0)
        if depth > MAX_DEPTH:
            raise InvalidRequestError(
                f"a type nests {depth} levels deep: at most {MAX_DEPTH} are allowed"
            )
        object.__setattr__(self, "depth", depth)

    def simple_string(self) -> str:
        """Spark's simpleString of the type; a tuple is `tuple<..>`, a pickle `pickled`."""
        match self.kind:
            case Kind.DECIMAL:
                return f"decimal({self.precision},{self.scale})"
            case Kind.ROW:
                inner = (f"{_quoted(f.name)}:{f.type.simple_string()}" for f in self.fields)
                return f"struct<{','.join(inner)}>"
            case Kind.TUPLE:
                return f"tuple<{','.join(f.type.simple_string() for f in self.fields)}>"
            case Kind.LIST:
                return f"array<{given(self.element).simple_string()}>"
            case Kind.MAP:
                key, value = given(self.key), given(self.element)
                return f"map<{key.simple_string()},{value.simple_string()}>"
            case Kind.CUSTOM:
                return f"custom<{self.format_name}>"
            case _:
                return SIMPLE_NAMES[self.kind]

    def __format__(self, spec: str) -> str:
        return format(self.simple_string(), spec)

    def __repr__(self) -> str:
        """PyFlink's text of the type."""
        match self.kind:
            case Kind.DECIMAL:
                is_big = (self.precision, self.scale) == (38, 18)
                return "BigDecimal" if is_big else f"Decimal({self.precision}, {self.scale})"
            case Kind.ROW:
                inner = ", ".join(f"{f.name}: {f.type!r}" for f in self.fields)
                return f"RowTypeInfo({inner})"
            case Kind.TUPLE:
                return f"TupleTypeInfo({', '.join(repr(f.type) for f in self.fields)})"
            case Kind.LIST:
                return f"ListTypeInfo<{self.element!r}>"
            case Kind.MAP:
                return f"MapTypeInfo<{self.key!r}, {self.element!r}>"
            case Kind.CUSTOM:
                return f"CustomTypeInfo<{self.format_name}>"
            case _:
                return PYFLINK_NAMES[self.kind]

    @property
    def has_python_objects(self) -> bool:
        """True if it has a Python class or a serializer, at any depth."""
        if self.python_class is not None or self.serializer is not None:
            return True
        parts = [f.type for f in self.fields]
        parts += [part for part in (self.key, self.element) if part is not None]
        return any(part.has_python_objects for part in parts)

    def get_field_names(self) -> list[str]:
        """The names of a row's fields; f0, f1, ... for a tuple."""
        self._check_has_fields("field names")
        return [f.name or f"f{position}" for position, f in enumerate(self.fields)]

    def get_field_types(self) -> list[TypeInfo]:
        """The types of the fields of a row or a tuple."""
        self._check_has_fields("field types")
        return [f.type for f in self.fields]

    def get_field_index(self, field_name: str) -> int:
        """The position of a field; ValueError if there is none of that name."""
        return self.get_field_names().index(field_name)

    @property
    def format_name(self) -> str:
        """The name of a CUSTOM type's serializer; empty for other types."""
        return "" if self.serializer_format is None else self.serializer_format.name

    @property
    def elem_type(self) -> TypeInfo:
        """The type of a list's elements."""
        return given(self.element)

    def _check_has_fields(self, what: str) -> None:
        if self.kind not in (Kind.ROW, Kind.TUPLE):
            raise InvalidRequestError(
                f"{self.simple_string()} has no {what}: it is no row or tuple"
            )

    def to_proto(self) -> types_pb2.TypeInfo:
        """The type as a message."""
        return types_pb2.TypeInfo(
            kind=types_pb2.TypeInfo.Kind.ValueType(self.kind),
            precision=self.precision,
            scale=self.scale,
            fields=[types_pb2.Field(name=f.name, type=f.type.to_proto()) for f in self.fields],
            key=None if self.key is None else self.key.to_proto(),
            element=None if self.element is None else self.element.to_proto(),
            serializer=None
            if self.serializer_format is None
            else self.serializer_format.to_proto(),
            nullable=self.nullable,
        )

    @staticmethod
    def from_proto(proto: types_pb2.TypeInfo) -> TypeInfo:
        """The type of a message; raises InvalidRequestError if it is invalid."""
        try:
            kind = Kind(proto.kind)
        except ValueError:
            raise InvalidRequestError(
                f"unknown type kind {proto.kind}: use a newer client or server",
                reason=Reason.UNSUPPORTED,
            ) from None
        return TypeInfo(
            kind,
            precision=proto.precision,
            scale=proto.scale,
            fields=tuple(Field(f.name, TypeInfo.from_proto(f.type)) for f in proto.fields),
            key=TypeInfo.from_proto(proto.key) if proto.HasField("key") else None,
            element=TypeInfo.from_proto(proto.element) if proto.HasField("element") else None,
            serializer_format=SerializerFormat.from_proto(proto.serializer)
            if proto.HasField("serializer")
            else None,
            nullable=proto.nullable,
        )


def without_nullable(info: TypeInfo) -> TypeInfo:
    """The type of a key without the nulls that it may be or contain."""
    fields = tuple(Field(each.name, without_nullable(each.type)) for each in info.fields)
    element = None if info.element is None else without_nullable(info.element)
    return replace(info, fields=fields, element=element, nullable=False)


def given(info: TypeInfo | None) -> TypeInfo:
    """A key or element type that the shape of a LIST or MAP guarantees; raises for None."""
    if info is None:
        raise InvalidRequestError("a LIST needs an element type, a MAP a key and a value type")
    return info


def _quoted(name: str) -> str:
    if name.isascii() and name.replace("_", "a").isalnum():
        return name
    return "`" + name.replace("`", "``") + "`"


def _check_shape(info: TypeInfo) -> None:
    kind = info.kind
    if kind == Kind.DECIMAL:
        if not (1 <= info.precision <= 38 and 0 <= info.scale <= info.precision):
            raise InvalidRequestError(
                f"decimal({info.precision},{info.scale}): precision is 1 to 38, "
                "scale 0 to precision"
            )
    elif info.precision or info.scale:
        raise InvalidRequestError(f"{kind.name} has neither precision nor scale")
    if info.fields and kind not in (Kind.ROW, Kind.TUPLE):
        raise InvalidRequestError(f"{kind.name} has no fields; use ROW or TUPLE")
    if (info.element is None) is (kind in (Kind.LIST, Kind.MAP)):
        raise InvalidRequestError(f"{kind.name}: LIST and MAP, and only they, have an element type")
    if (info.key is None) is (kind == Kind.MAP):
        raise InvalidRequestError(f"{kind.name}: MAP, and only MAP, has a key type")
    if (info.serializer_format is None) is (kind == Kind.CUSTOM):
        raise InvalidRequestError(f"{kind.name}: CUSTOM, and only CUSTOM, has a serializer format")
    names = [f.name for f in info.fields]
    if kind == Kind.ROW and (len(set(names)) < len(names) or not all(names)):
        raise InvalidRequestError(f"a row's fields need distinct, non-empty names: {names}")
    if kind == Kind.TUPLE and any(names):
        raise InvalidRequestError("the fields of a tuple have no names; use ROW_NAMED")
