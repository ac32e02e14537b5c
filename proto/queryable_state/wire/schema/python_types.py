"""Types of Python classes and annotations.

`int` is LONG, `float` DOUBLE, `str` STRING, `bool` BOOLEAN, `bytes` BINARY, `Decimal` BIG_DEC,
`date` DATE, `time` TIME, `datetime` TIMESTAMP (with a time zone), `Instant` INSTANT, `list[T]`
LIST, `dict[K, V]` MAP, `tuple[A, B]` TUPLE, and `T | None` is T. Dataclasses, named tuples and
typed dictionaries are a ROW of their fields; the type keeps the class, and rows of it are
delivered as its instances. `NewType` is its supertype, and `Annotated[T, Types.X()]` is X. Every
other class is refused.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import inspect
import types
import typing
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.instant import Instant
from queryable_state.wire.schema.type_model import MAX_DEPTH, Field, Kind, TypeInfo

_SCALARS = {
    bool: TypeInfo(Kind.BOOLEAN),
    int: TypeInfo(Kind.LONG),
    float: TypeInfo(Kind.DOUBLE),
    str: TypeInfo(Kind.STRING),
    bytes: TypeInfo(Kind.BINARY),
    bytearray: TypeInfo(Kind.BINARY),
    Decimal: TypeInfo(Kind.DECIMAL, precision=38, scale=18),
    date: TypeInfo(Kind.DATE),
    time: TypeInfo(Kind.TIME),
    datetime: TypeInfo(Kind.TIMESTAMP),
    Instant: TypeInfo(Kind.INSTANT),
}
_LISTS = (list, collections.abc.Sequence, collections.abc.MutableSequence)
_MAPS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)
_GENERIC = {
    list: "list[int]",
    dict: "dict[str, float]",
    tuple: "tuple[str, int]",
}


def is_python_type(spec: object) -> bool:
    """True for a class or an annotation, false for DDL strings and instances."""
    return (
        isinstance(spec, (type, types.UnionType, typing.TypeVar, typing.NewType))
        or spec in (None, Any)
        or typing.get_origin(spec) is not None
        or hasattr(spec, "__value__")
    )


def type_of_class(annotation: Any) -> TypeInfo:
    """The type of a class or annotation; InvalidRequestError names the part that has none."""
    return _type_of(annotation, "", ())


def is_row_class(cls: object) -> bool:
    """True for dataclasses, named tuples and typed dictionaries."""
    return isinstance(cls, type) and (
        dataclasses.is_dataclass(cls) or is_named_tuple(cls) or typing.is_typeddict(cls)
    )


def is_named_tuple(cls: type) -> bool:
    """True for classes of `NamedTuple` and `namedtuple`."""
    return issubclass(cls, tuple) and hasattr(cls, "_fields") and hasattr(cls, "_make")


def _type_of(annotation: Any, path: str, outer: tuple[type, ...]) -> TypeInfo:
    if isinstance(annotation, TypeInfo):
        return annotation
    if isinstance(annotation, typing.NewType):
        return _type_of(annotation.__supertype__, path, outer)
    if hasattr(annotation, "__value__"):
        return _type_of(annotation.__value__, path, outer)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Annotated:
        given = [each for each in annotation.__metadata__ if isinstance(each, TypeInfo)]
        return given[0] if given else _type_of(arguments[0], path, outer)
    if origin in (typing.Union, types.UnionType):
        return _of_union(annotation, arguments, path, outer)
    if origin in (typing.Required, typing.NotRequired):
        return _type_of(arguments[0], path, outer)
    if origin is not None:
        return _of_generic(annotation, origin, arguments, path, outer)
    if annotation in _SCALARS:
        return _SCALARS[annotation]
    if is_row_class(annotation):
        return _of_row_class(annotation, path, outer)
    raise _refusal(annotation, path)


def _of_union(
    annotation: Any, arguments: tuple[Any, ...], path: str, outer: tuple[type, ...]
) -> TypeInfo:
    given = [each for each in arguments if each is not type(None)]
    if len(given) == 1:
        return _type_of(given[0], path, outer)
    raise InvalidRequestError(
        f"{_at(path)}{_shown(annotation)} is a union of several types, but a value has one type: "
        "give one of them, or Types.PICKLED_BYTE_ARRAY()"
    )


def _of_generic(
    annotation: Any, origin: Any, arguments: tuple[Any, ...], path: str, outer: tuple[type, ...]
) -> TypeInfo:
    if origin in _LISTS:
        return TypeInfo(Kind.LIST, element=_type_of(arguments[0], _within(path, "element"), outer))
    if origin in _MAPS:
        key = _type_of(arguments[0], _within(path, "key"), outer)
        return TypeInfo(
            Kind.MAP, key=key, element=_type_of(arguments[1], _within(path, "value"), outer)
        )
    if origin is tuple and Ellipsis not in arguments:
        parts = [
            Field("", _type_of(each, _within(path, f"[{position}]"), outer))
            for position, each in enumerate(arguments)
        ]
        return TypeInfo(Kind.TUPLE, fields=tuple(parts))
    if origin is tuple:
        raise InvalidRequestError(
            f"{_at(path)}{_shown(annotation)} has any number of fields: give list[...], whose "
            "values are read back as lists"
        )
    raise _refusal(annotation, path)


def _of_row_class(cls: Any, path: str, outer: tuple[type, ...]) -> TypeInfo:
    if cls in outer or len(outer) >= MAX_DEPTH:
        raise InvalidRequestError(
            f"{_at(path)}class {cls.__qualname__} contains itself, but a row type is finite: "
            "declare the inner field as Annotated[object, Types.PICKLED_BYTE_ARRAY()]"
        )
    if dataclasses.is_dataclass(cls):
        _check_constructor(cls, path)
        names = [field.name for field in dataclasses.fields(cls)]
    elif is_named_tuple(cls):
        names = list(cls._fields)
    else:
        names = list(typing.get_type_hints(cls))
    try:
        hints = typing.get_type_hints(cls, include_extras=True)
    except (NameError, TypeError, AttributeError) as problem:
        raise InvalidRequestError(
            f"{_at(path)}an annotation of class {cls.__qualname__} cannot be resolved: {problem}. "
            "Import the name where the class is defined, outside of TYPE_CHECKING"
        ) from None
    fields = []
    for name in names:
        at = f"field {name!r} of {cls.__qualname__}"
        if name not in hints:
            raise InvalidRequestError(
                f"{_at(path)}{at} has no annotation: annotate it with its type"
            )
        fields.append(Field(name, _type_of(hints[name], at, (*outer, cls))))
    return TypeInfo(Kind.ROW, fields=tuple(fields), python_class=cls)


def _check_constructor(cls: Any, path: str) -> None:
    """Raises for a dataclass whose constructor does not take exactly its fields."""
    fields = {field.name for field in dataclasses.fields(cls)}
    parameters = inspect.signature(cls).parameters
    needed = [
        name
        for name, parameter in parameters.items()
        if name not in fields and parameter.default is parameter.empty
    ]
    wrong = needed + sorted(fields - set(parameters))
    if wrong:
        raise InvalidRequestError(
            f"{_at(path)}dataclass {cls.__qualname__} cannot be made of its fields: "
            f"{', '.join(map(repr, wrong))} is an InitVar or has init=False; use a dataclass whose "
            "constructor takes its fields"
        )


def _refusal(annotation: Any, path: str) -> InvalidRequestError:
    if annotation in _GENERIC:
        return InvalidRequestError(
            f"{_at(path)}{annotation.__name__} has no element types: give for example "
            f"{_GENERIC[annotation]}"
        )
    return InvalidRequestError(
        f"{_at(path)}{_shown(annotation)} is not a type of keys or values: give Types.X(), a Spark "
        "DDL string, or one of bool, int, float, str, bytes, Decimal, date, time, datetime, "
        "Instant, list[T], dict[K, V], tuple[A, B], a dataclass, a NamedTuple or a TypedDict of "
        "these; Types.PICKLED_BYTE_ARRAY() takes any object"
    )


def _at(path: str) -> str:
    return f"{path}: " if path else ""


def _within(path: str, part: str) -> str:
    return f"{path}, {part}" if path else part


def _shown(annotation: Any) -> str:
    return annotation.__qualname__ if type(annotation) is type else str(annotation)
