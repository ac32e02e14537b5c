"""JSON form of keys and values, for people and grpcurl.

Dates and times are ISO 8601, binary is base64, decimals and BIG_INT are strings (numbers
are accepted too), floats that JSON lacks are "NaN", "Infinity" and "-Infinity", rows are
objects, tuples arrays, maps objects with strings as keys. A pickle is
{"$pickled": "<base64>"}, a value of a job's own serializer {"$serialized": "<base64>"}.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from typing import Any

from queryable_state.wire.errors import InvalidRequestError, KeyTypeError, shown
from queryable_state.wire.keys.time_window import TimeWindow
from queryable_state.wire.keys.window_keys import is_window_type, key_values
from queryable_state.wire.schema.type_model import Kind, TypeInfo, given

_BRIEF = 5
# Types whose JSON is a string.
_QUOTED = (
    Kind.STRING,
    Kind.BINARY,
    Kind.DATE,
    Kind.TIME,
    Kind.TIMESTAMP,
    Kind.TIMESTAMP_NTZ,
    Kind.INSTANT,
)
_INTEGERS = (Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG)
_FLOATS = (Kind.FLOAT, Kind.DOUBLE)
# Floats that JSON lacks are strings.
_SPECIALS = ("NaN", "Infinity", "-Infinity")
# A window that Spark groups by, given as windows of our own state are.
_WINDOW_NAMES = {"start_ms", "end_ms"}
_MICROS_NAMES = {"start_us", "end_us"}


def key_json_of(word: str, key_type: TypeInfo) -> str:
    """The JSON text of a key as people write it: where the JSON of the type is a string, its quotes
    may be omitted. A quoted word is JSON, and so is `null` for a nullable type."""
    if key_type.nullable and word == "null":
        return word
    if key_type.kind in _QUOTED and not (len(word) > 1 and word[0] == word[-1] == '"'):
        return json.dumps(word)
    if key_type.kind in _FLOATS and word in _SPECIALS:
        return json.dumps(word)
    return word


def key_from_json(text: str, key_type: TypeInfo) -> Any:
    """Parses a key, to be encoded by a `KeyCodec` of the type."""
    try:
        parsed = json.loads(text, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise InvalidRequestError(
            f"key {shown(text)!r} is not JSON ({shown(str(error))}); a {key_type} key is "
            f"written as in {_example(key_type)}"
        ) from None
    return _from_json(parsed, key_type, "key")


def _from_json(value: Any, info: TypeInfo, path: str) -> Any:
    if value is None and info.nullable:
        return None
    if info.kind in (Kind.ROW, Kind.TUPLE):
        return _fields_from_json(value, info, path)
    if info.kind == Kind.LIST:
        if not isinstance(value, list):
            raise KeyTypeError(
                f"{path} is {info}, written as in {_example(info)}, not as {_brief(value)}"
            )
        element = given(info.element)
        return tuple(_from_json(each, element, f"{path}[{i}]") for i, each in enumerate(value))
    try:
        return _scalar_from_json(value, info)
    except (TypeError, ValueError, InvalidOperation, binascii.Error) as error:
        raise KeyTypeError(
            f"{path} is {info}, written as in {_example(info)}, not as {_brief(value)}: "
            f"{shown(str(error))}"
        ) from None


def _brief(value: Any) -> str:
    """A short text of a value; its cost does not grow with the size of the value."""
    if isinstance(value, list):
        parts = ["[...]" if isinstance(each, list) else _brief(each) for each in value[:_BRIEF]]
        more = ", ..." if len(value) > _BRIEF else ""
        return shown(f"[{', '.join(parts)}{more}]")
    if isinstance(value, dict):
        return "an object"
    return shown(repr(value[:100] if isinstance(value, str) else value))


def _fields_from_json(value: Any, info: TypeInfo, path: str) -> Any:
    names = [f.name for f in info.fields]
    if isinstance(value, dict) and set(value) == _WINDOW_NAMES and is_window_type(info):
        return key_values(info, path)(TimeWindow(value["start_ms"], value["end_ms"]))
    if isinstance(value, dict) and set(value) == _MICROS_NAMES and is_window_type(info):
        bounds = [value["start_us"], value["end_us"]]
        if not all(type(each) is int for each in bounds):
            raise KeyTypeError(f"{path}: start_us and end_us must be whole numbers")
        return key_values(info, path)(TimeWindow.of_micros(*bounds))
    if info.kind == Kind.ROW and isinstance(value, dict):
        if set(value) != set(names):
            raise KeyTypeError(f"{path} needs the fields {names}, not {_brief(list(value))}")
        value = [value[name] for name in names]
    if not isinstance(value, list) or len(value) != len(names):
        raise KeyTypeError(f"{path} is {info}, written as in {_example(info)}")
    parts = zip(value, info.fields, strict=True)
    return tuple(_from_json(v, f.type, f"{path}[{i}]") for i, (v, f) in enumerate(parts))


def _scalar_from_json(value: Any, info: TypeInfo) -> Any:
    if info.kind in _INTEGERS:
        # A string keeps longs exact in tools whose numbers are doubles.
        if isinstance(value, str):
            return int(value)
        return value
    if info.kind in _FLOATS:
        return float(value) if isinstance(value, str | Decimal) else value
    if info.kind == Kind.BIG_INT:
        return int(value) if isinstance(value, str) else value
    if info.kind == Kind.DECIMAL:
        if isinstance(value, bool):
            return value
        return Decimal(value) if isinstance(value, str | int) else value
    if info.kind == Kind.BOOLEAN:
        return value
    if not isinstance(value, str):
        raise TypeError("it needs quotes")
    if info.kind == Kind.STRING:
        return value
    if info.kind == Kind.BINARY:
        return base64.b64decode(value, validate=True)
    if info.kind == Kind.DATE:
        return date.fromisoformat(value)
    if info.kind == Kind.TIME:
        return time.fromisoformat(value)
    return datetime.fromisoformat(value)


def _example(info: TypeInfo) -> str:
    if info.kind == Kind.ROW:
        inner = (f"{json.dumps(f.name)}: {_example(f.type)}" for f in info.fields)
        return "{" + ", ".join(inner) + "}"
    if info.kind == Kind.TUPLE:
        return f"[{', '.join(_example(f.type) for f in info.fields)}]"
    if info.kind == Kind.LIST:
        return f"[{_example(given(info.element))}]"
    return _EXAMPLES.get(info.kind, "7")


_EXAMPLES = {
    Kind.BOOLEAN: "true",
    Kind.FLOAT: "1.5",
    Kind.DOUBLE: "1.5",
    Kind.DECIMAL: '"1.50"',
    Kind.STRING: '"sensor_1"',
    Kind.BINARY: '"c2Vuc29y"',
    Kind.DATE: '"2013-01-31"',
    Kind.TIMESTAMP: '"2013-01-31T10:00:00Z"',
    Kind.TIMESTAMP_NTZ: '"2013-01-31T10:00:00"',
    Kind.TIME: '"10:00:00"',
    Kind.INSTANT: '"2013-01-31T10:00:00Z"',
    Kind.BIG_INT: '"12345678901234567890"',
}


def to_jsonable(value: Any, info: TypeInfo) -> Any:
    """Converts a decoded key or value for `json.dumps`."""
    if value is None:
        return None
    match info.kind:
        case Kind.ROW:
            pairs = zip(info.fields, value, strict=True)
            return {f.name: to_jsonable(v, f.type) for f, v in pairs}
        case Kind.TUPLE:
            pairs = zip(info.fields, value, strict=True)
            return [to_jsonable(v, f.type) for f, v in pairs]
        case Kind.LIST:
            element = given(info.element)
            return [to_jsonable(v, element) for v in value]
        case Kind.MAP:
            key, element = given(info.key), given(info.element)
            return {_name(k, key): to_jsonable(v, element) for k, v in value.items()}
        case Kind.FLOAT | Kind.DOUBLE:
            return value if math.isfinite(value) else _special(value)
        case Kind.DECIMAL:
            return format(value, "f")
        case Kind.BINARY:
            return base64.b64encode(value).decode()
        case Kind.PICKLED:
            return {"$pickled": base64.b64encode(value).decode()}
        case Kind.CUSTOM:
            return {"$serialized": base64.b64encode(value).decode()}
        case Kind.BIG_INT:
            return str(value)
        case Kind.INSTANT:
            return to_jsonable(value.to_datetime(), TypeInfo(Kind.TIMESTAMP))
        case Kind.DATE | Kind.TIME | Kind.TIMESTAMP_NTZ:
            return value.isoformat()
        case Kind.TIMESTAMP:
            return value.astimezone(UTC).isoformat().replace("+00:00", "Z")
        case _:
            return value


def _special(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _name(key: Any, info: TypeInfo) -> str:
    """The name of a map entry: the JSON of its key, without the quotes of a string."""
    jsonable = to_jsonable(key, info)
    if isinstance(jsonable, str):
        return jsonable
    return json.dumps(jsonable, ensure_ascii=False, allow_nan=False)
