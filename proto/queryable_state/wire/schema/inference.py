"""Inference of types from annotations of functions and from values.

A part whose type is unknown is PICKLED, as in PyFlink; one WARNING names the part and the reason.
A value gives its type by its class, as `python_types` maps classes. A time with a zone is
TIMESTAMP, one without TIMESTAMP_NTZ. An integer of more than 64 bits is BIG_INT. Integers among
floats are DOUBLE. An instance of a dataclass has the types of its annotations, and a `Row` without
names has the names f0, f1, ...
"""

from __future__ import annotations

import collections.abc
import functools
import inspect
import logging
import typing
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.instant import Instant
from queryable_state.wire.schema.python_types import is_named_tuple, is_row_class, type_of_class
from queryable_state.wire.schema.row import Row
from queryable_state.wire.schema.type_model import Field, Kind, TypeInfo

_log = logging.getLogger("queryable_state.types")

_PICKLED = TypeInfo(Kind.PICKLED)
_ITERABLES = (
    collections.abc.Iterable,
    collections.abc.Iterator,
    collections.abc.Generator,
    collections.abc.Collection,
    collections.abc.Sequence,
    list,
    tuple,
    set,
)
_KEYS = frozenset(Kind) - {Kind.LIST, Kind.MAP, Kind.PICKLED, Kind.CUSTOM}
_LONG_BOUND = 1 << 63
_MAX_DIGITS = 38


def infer_type(function: Callable[..., Any], purpose: str, *, elements: bool = False) -> TypeInfo:
    """The type of a function's return annotation; PICKLED, with a WARNING, if it is unknown.

    With `elements` the annotation is an iterable, as of a `flat_map`, and its elements count; None
    has none, so PICKLED is as good as any. `purpose` names the function in the log.
    """
    try:
        return _annotated(function, elements=elements)
    except InvalidRequestError as problem:
        _log.warning(
            "%s: its result is pickled, because its type is unknown: %s. Annotate the function, "
            "or pass output_type, to make the result readable for Spark and for queries",
            purpose,
            problem,
        )
        return _PICKLED


def returns_none(function: Callable[..., Any]) -> bool:
    """True if a function is annotated to return None."""
    return getattr(function, "__annotations__", {}).get("return", "") in (None, "None")


def annotated_type(function: Callable[..., Any], *, elements: bool = False) -> TypeInfo | None:
    """The type of a function's return annotation; None if it has none that is a type.

    `elements` as in `infer_type`.
    """
    try:
        return _annotated(function, elements=elements)
    except InvalidRequestError:
        return None


def type_of_value(value: Any, purpose: str = "value") -> TypeInfo:
    """The type of a value; see `type_of_values`."""
    return type_of_values([value], purpose)


def type_of_values(values: Sequence[Any], purpose: str = "values") -> TypeInfo:
    """The type of all these values; unknown parts are PICKLED, with a WARNING.

    A part is unknown if all its values are null, if a list or map of it is empty in all values, or
    if its values have different types. `purpose` names the values in the log.
    """
    unknown: list[str] = []
    info = _of_values(values, "", unknown)
    if unknown:
        _log.warning(
            "%s: of type %s, pickled where the type is unknown: %s. Declare the type, for example "
            "with type_info=Types.X(), to make these parts readable for Spark and for queries",
            purpose,
            info.simple_string(),
            "; ".join(unknown),
        )
    return info


def _annotated(function: Callable[..., Any], *, elements: bool) -> TypeInfo:
    while isinstance(function, functools.partial):
        function = function.func
    if isinstance(function, type) and not elements:
        # A class is a function that returns its instances: stream.map(int).
        return type_of_class(function)
    if not inspect.isroutine(function):
        function = type(function).__call__
    try:
        hints = typing.get_type_hints(function, include_extras=True)
    except (NameError, TypeError, AttributeError) as problem:
        raise InvalidRequestError(f"its annotations cannot be resolved: {problem}") from None
    if "return" not in hints:
        raise InvalidRequestError("it has no return annotation")
    annotation = hints["return"]
    if elements and annotation is type(None):
        return _PICKLED
    return type_of_class(_element(annotation) if elements else annotation)


def _element(annotation: Any) -> Any:
    arguments = typing.get_args(annotation)
    if type(None) in arguments and len(arguments) == 2:
        return _element(next(each for each in arguments if each is not type(None)))
    origin = typing.get_origin(annotation)
    if origin not in _ITERABLES or (origin is tuple and Ellipsis not in arguments):
        raise InvalidRequestError(
            f"its return annotation {annotation} is no iterable of elements, as Iterable[int] is"
        )
    return arguments[0]


def _of_values(values: Sequence[Any], path: str, unknown: list[str]) -> TypeInfo:
    given = [value for value in values if value is not None]
    if not given:
        return _unknown(path, "it has only nulls", unknown)
    found = _of_scalars(given)
    if found is None:
        found = _of_composites(given, path, unknown)
    if found is None:
        classes = sorted({type(value).__qualname__ for value in given})
        return _unknown(path, f"it has values of {', '.join(classes)}", unknown)
    return found


def _unknown(path: str, why: str, unknown: list[str]) -> TypeInfo:
    unknown.append(f"{path}: {why}" if path else why)
    return _PICKLED


def _of_scalars(values: list[Any]) -> TypeInfo | None:
    kinds = {_scalar(value) for value in values}
    if None in kinds:
        return None
    if kinds == {Kind.LONG, Kind.DOUBLE}:
        return TypeInfo(Kind.DOUBLE)
    if kinds == {Kind.LONG, Kind.BIG_INT}:
        return TypeInfo(Kind.BIG_INT)
    if len(kinds) > 1:
        return None
    kind = next(iter(kinds))
    assert kind is not None
    if kind == Kind.DECIMAL:
        return TypeInfo(Kind.DECIMAL, precision=_MAX_DIGITS, scale=18)
    return TypeInfo(kind)


def _scalar(value: Any) -> Kind | None:
    """The kind of a scalar; None if it is none."""
    match value:
        case bool():
            return Kind.BOOLEAN
        case int():
            if -_LONG_BOUND <= value < _LONG_BOUND:
                return Kind.LONG
            return Kind.BIG_INT if abs(value) < 10**_MAX_DIGITS else None
        case float():
            return Kind.DOUBLE
        case str():
            return Kind.STRING
        case bytes() | bytearray():
            return Kind.BINARY
        case Decimal():
            return Kind.DECIMAL
        case datetime():
            return Kind.TIMESTAMP_NTZ if value.tzinfo is None else Kind.TIMESTAMP
        case date():
            return Kind.DATE
        case time():
            return Kind.TIME
        case Instant():
            return Kind.INSTANT
    return None


def _of_composites(values: list[Any], path: str, unknown: list[str]) -> TypeInfo | None:
    first = values[0]
    cls = type(first)
    if is_row_class(cls) and all(type(value) is cls for value in values):
        try:
            return type_of_class(cls)
        except InvalidRequestError:
            if not is_named_tuple(cls):
                return None
    if all(isinstance(value, list) for value in values):
        items = [item for value in values for item in value]
        if not items:
            element = _unknown(f"{path}[]", "its lists are empty", unknown)
        else:
            element = _of_values(items, f"{path}[]", unknown)
        return TypeInfo(Kind.LIST, element=element)
    if all(isinstance(value, Mapping) for value in values):
        return _of_maps(values, path, unknown)
    if all(isinstance(value, (tuple, Row)) for value in values):
        return _of_tuples(values, path, unknown)
    return None


def _of_maps(values: list[Any], path: str, unknown: list[str]) -> TypeInfo | None:
    keys = [key for value in values for key in value]
    items = [item for value in values for item in value.values()]
    if not keys:
        return _unknown(path, "its maps are empty", unknown)
    unusable: list[str] = []
    key = _of_values(keys, f"key of {path}", unusable)
    if unusable or key.kind not in _KEYS:
        return None
    return TypeInfo(Kind.MAP, key=key, element=_of_values(items, f"{path}[]", unknown))


def _of_tuples(values: list[Any], path: str, unknown: list[str]) -> TypeInfo | None:
    names = {_names(value) for value in values}
    widths = {len(value) for value in values}
    if len(names) > 1 or len(widths) > 1:
        return None
    own = next(iter(names))
    labels = own or tuple(f"[{position}]" for position in range(len(values[0])))
    columns = zip(*values, strict=True)
    fields = [
        Field(
            label if own else "",
            _of_values(column, f"{path}.{label}" if own and path else f"{path}{label}", unknown),
        )
        for label, column in zip(labels, columns, strict=True)
    ]
    return TypeInfo(Kind.ROW if own else Kind.TUPLE, fields=tuple(fields))


def _names(value: Any) -> tuple[str, ...]:
    """The field names of a named tuple, a `Row` or a Spark row; empty for a tuple."""
    names = getattr(value, "__fields__", None) or getattr(value, "_fields", None)
    if names is None and isinstance(value, Row):
        return tuple(f"f{position}" for position in range(len(value)))
    return tuple(names) if names else ()
