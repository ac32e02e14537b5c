"""Parser of textual settings from Spark's configuration, the environment and a file."""

from __future__ import annotations

import dataclasses
import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from queryable_state.streaming.config.durability_settings import FLINK_NAMES
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterable

CONF_PREFIX = "spark.queryable_state."
ENVIRONMENT_PREFIX = "QUERYABLE_STATE_"
FILE_KEY = "file"

_QUANTITY = re.compile(r"(-?\d+)\s*([a-zA-Z]*)")
_TIME_UNITS = {
    "ms": ("", "ms", "milli", "millis", "millisecond", "milliseconds"),
    "s": ("s", "sec", "secs", "second", "seconds"),
    "min": ("m", "min", "minute", "minutes"),
    "h": ("h", "hour", "hours"),
    "d": ("d", "day", "days"),
}
_MILLISECONDS = {"ms": 1, "s": 1_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}
_TIMES = {name: _MILLISECONDS[unit] for unit, names in _TIME_UNITS.items() for name in names}
_SIZES = {
    name: 1024**power
    for power, names in enumerate(
        (("", "b", "bytes"), ("k", "kb"), ("m", "mb"), ("g", "gb"), ("t", "tb"))
    )
    for name in names
}
_TRUTH = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_NAMES: dict[type, str] = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    str: "text",
    dict: "a JSON object",
}


def settings_of(
    fields: Iterable[dataclasses.Field[Any]],
    conf: Mapping[str, str],
    environment: Mapping[str, str],
) -> dict[str, Any]:
    """The values that are set, by field name, converted to their types.

    A field has its own name and possibly a PyFlink name. In Spark's configuration the PyFlink name
    may also be used without the prefix. The order of precedence is: prefixed configuration,
    configuration without prefix, environment, file. Raises InvalidRequestError with the full key
    of an unknown or invalid setting.
    """
    known = {setting.name: setting for setting in fields}
    prefixed = {
        key.removeprefix(CONF_PREFIX): value
        for key, value in conf.items()
        if key.startswith(CONF_PREFIX)
    }
    bare = {key: value for key, value in conf.items() if key in FLINK_NAMES}
    # Unknown variables with this prefix may belong to other programs.
    names = {_as_variable(name): name for name in (*known, *FLINK_NAMES, FILE_KEY)}
    variables = {
        names[key.removeprefix(ENVIRONMENT_PREFIX)]: value
        for key, value in environment.items()
        if key.startswith(ENVIRONMENT_PREFIX) and key.removeprefix(ENVIRONMENT_PREFIX) in names
    }
    file = prefixed.pop(FILE_KEY, "") or variables.pop(FILE_KEY, "")
    variables.pop(FILE_KEY, None)
    values = _checked(_read_file(file), f"file {file}: ", known) if file else {}
    values |= _checked(variables, ENVIRONMENT_PREFIX, known)
    values |= _checked(bare, "", known)
    return values | _checked(prefixed, CONF_PREFIX, known)


def _as_variable(name: str) -> str:
    return re.sub(r"[.-]", "_", name).upper()


def _read_file(path: str) -> dict[str, Any]:
    try:
        values = tomllib.loads(Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise InvalidRequestError(
            f"the settings file {path!r} cannot be read: {problem}"
        ) from problem
    return dict(_flattened(values.get("queryable_state", values), ""))


def _flattened(table: Mapping[str, Any], prefix: str) -> Iterable[tuple[str, Any]]:
    """The settings of nested tables with dotted names; `storage_options` is not flattened."""
    for name, value in table.items():
        if isinstance(value, Mapping) and name != "storage_options":
            yield from _flattened(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _checked(
    values: Mapping[str, Any], where: str, known: Mapping[str, dataclasses.Field[Any]]
) -> dict[str, Any]:
    checked: dict[str, Any] = {}
    given: dict[str, str] = {}
    for name, text in values.items():
        field = FLINK_NAMES.get(name, name)
        if field not in known:
            raise InvalidRequestError(
                f"{where}{name} is not a setting; the settings are: {', '.join(sorted(known))}; "
                f"and {', '.join(sorted(FLINK_NAMES))}",
                candidates=sorted((*known, *FLINK_NAMES)),
            )
        value = _value(known[field], text, f"{where}{name}")
        if field in checked and checked[field] != value:
            raise InvalidRequestError(
                f"{where}{name} and {where}{given[field]} are the same setting, but differ: "
                f"{value!r} and {checked[field]!r}; remove one"
            )
        checked[field], given[field] = value, name
    return checked


def _value(setting: dataclasses.Field[Any], value: Any, what: str) -> Any:
    wanted: Any = dict if setting.default is dataclasses.MISSING else type(setting.default)
    text = str(value).strip()
    try:
        if wanted is bool:
            return _TRUTH[text.lower()]
        if wanted is dict:
            return _object(value)
        if wanted is int and setting.name.endswith("_ms"):
            return _quantity(text, _TIMES)
        if wanted is int and setting.name.endswith("_bytes"):
            return _quantity(text, _SIZES)
        return wanted(text)
    except (ValueError, KeyError):
        units = ""
        if setting.name.endswith(("_ms", "_bytes")):
            unit = "10 s, 5 min" if setting.name.endswith("_ms") else "20 kb, 64 mb"
            units = f" with or without a unit ({unit})"
        raise InvalidRequestError(
            f"{what} is {value!r}, which is not {_NAMES[wanted]}{units}"
        ) from None


def _quantity(text: str, units: Mapping[str, int]) -> int:
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise ValueError(text)
    return int(found[1]) * units[found[2].lower()]


def _object(value: Any) -> dict[str, Any]:
    found = value if isinstance(value, Mapping) else json.loads(str(value))
    if not isinstance(found, Mapping):
        raise ValueError(value)
    return dict(found)
