"""Conversion of texts into values of settings: units, choices, maps."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from queryable_state.server.config.setting import (
    DAY_MS,
    HOUR_MS,
    SECOND_MS,
    accepted,
    accepted_text,
    type_of,
    unit_of,
)

if TYPE_CHECKING:
    import dataclasses

_QUANTITY: Final = re.compile(r"([+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*([a-zA-Z]*)")
_UNIT_NAMES: Final[Mapping[int, tuple[str, ...]]] = {
    1: ("ms", "milli", "millis", "millisecond", "milliseconds"),
    SECOND_MS: ("s", "sec", "secs", "second", "seconds"),
    60 * SECOND_MS: ("m", "min", "minute", "minutes"),
    HOUR_MS: ("h", "hour", "hours"),
    DAY_MS: ("d", "day", "days"),
}
_MILLISECONDS: Final = {name: size for size, names in _UNIT_NAMES.items() for name in names}
_BYTES: Final[Mapping[str, int]] = {
    name: 1024**power
    for power, names in enumerate(
        (
            ("b", "bytes"),
            ("k", "kb", "kib"),
            ("m", "mb", "mib"),
            ("g", "gb", "gib"),
            ("t", "tb", "tib"),
        )
    )
    for name in names
}
TRUTH: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}


def value_of(field: dataclasses.Field[Any], given: Any) -> Any:
    """The value of a setting from a text, or from a value of a TOML file.

    A time may be `5 min`, a size `64 mb`; a choice is found in any case, with `-` or `_`. Raises
    ValueError, whose message says what is wanted; bounds are checked later.
    """
    wanted, unit = type_of(field), unit_of(field)
    text = str(given).strip()
    try:
        if wanted is bool:
            return TRUTH[text.lower()]
        if wanted is dict:
            return map_of(given)
        if wanted is tuple:
            texts = [given] if isinstance(given, str) else given
            parts = (part.strip() for each in texts for part in str(each).split(","))
            return tuple(filter(None, parts))
        if isinstance(given, bool):
            raise ValueError(given)
        if wanted is int:
            return quantity(text, unit)
        if wanted is float:
            return float(exact_quantity(text, unit))
    except (ValueError, KeyError, TypeError, OverflowError):
        raise ValueError(_wanted(field)) from None
    return choice_of(text, accepted(field).choices)


def quantity(text: str, unit: str) -> int:
    """The whole number of a text with a unit; of one without, in `unit`. Raises ValueError."""
    value = exact_quantity(text, unit)
    try:
        whole = int(value)
    except OverflowError:
        raise ValueError(text) from None
    if whole != value:
        raise ValueError(text)
    return whole


def exact_quantity(text: str, unit: str) -> float:
    """The number of a text with a unit; of one without, in `unit`. Raises ValueError."""
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise ValueError(text)
    number: float = float(found[1]) if set(".eE") & set(found[1]) else int(found[1])
    name = found[2].lower()
    if not name:
        return number
    if unit == "ms":
        return number * _MILLISECONDS[name]
    if unit == "s":
        return number * _MILLISECONDS[name] / SECOND_MS
    if unit == "bytes":
        return number * _BYTES[name]
    raise ValueError(text)


def choice_of(text: str, choices: Any) -> str:
    """The choice that a text names, in any case, with `-`, `_` or neither; else the text."""
    named = {_plain(choice): str(choice) for choice in choices}
    return named.get(_plain(text), text)


def map_of(given: Any) -> dict[str, Any]:
    """A map, from a map or a JSON object; raises ValueError."""
    found = given if isinstance(given, Mapping) else json.loads(str(given))
    if not isinstance(found, Mapping):
        raise ValueError(given)
    return dict(found)


def _plain(text: str) -> str:
    return re.sub("[-_]", "", text).lower()


def _wanted(field: dataclasses.Field[Any]) -> str:
    """What a setting wants, for errors."""
    unit = unit_of(field)
    if unit in ("ms", "s"):
        wanted = "a time with or without a unit (10 s, 5 min)"
    elif unit == "bytes":
        wanted = "a size with or without a unit (20 kb, 64 mb)"
    else:
        wanted = {
            bool: "true or false",
            int: "a whole number",
            float: "a number",
            dict: "a JSON object",
            tuple: "a list of texts",
        }.get(type_of(field), "text")
    bounds = accepted_text(field)
    return f"it must be {wanted}" + (f", {bounds}" if bounds else "")
