"""Conversion of texts into settings: values with units, names, and Flink's keys and options."""

from __future__ import annotations

import dataclasses
import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from queryable_state.server.config.setting import (
    DAY_MS,
    HOUR_MS,
    SECOND_MS,
    Origin,
    SettingsGroup,
    accepted,
    accepted_text,
    choice_of,
    name_of,
    settings_of,
    type_of,
    unit_of,
)
from queryable_state.server.config.sources import (
    FILE_NAME,
    SIMILAR,
    Source,
    environment_source,
    file_source,
    nearest,
)
from queryable_state.server.settings.flink_options import (
    NAMESPACES,
    OPTIONS,
    SPELLINGS,
    reason_without_effect,
    warn_without_effect,
)
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterable

_Group = TypeVar("_Group", bound=SettingsGroup)

_QUANTITY: Final = re.compile(r"([+-]?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s*([a-zA-Z]*)")
_MILLISECONDS: Final[Mapping[str, int]] = {
    name: size
    for size, names in (
        (1, "ms milli millis millisecond milliseconds"),
        (SECOND_MS, "s sec secs second seconds"),
        (60 * SECOND_MS, "m min minute minutes"),
        (HOUR_MS, "h hour hours"),
        (DAY_MS, "d day days"),
    )
    for name in names.split()
}
_BYTES: Final[Mapping[str, int]] = {
    name: 1024**power
    for power, names in enumerate(("b bytes", "k kb kib", "m mb mib", "g gb gib", "t tb tib"))
    for name in names.split()
}
_TRUTH: Final = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
_WANTED: Final = {
    bool: "true or false",
    int: "a whole number",
    float: "a number",
    dict: "a JSON object",
    tuple: "a list of texts",
}
_KINDS: Final = {
    "bool": "true or false",
    "int": "a whole number",
    "ms": "a time with or without a unit (10 s, 5 min)",
    "list": "a list, as in a;b",
    "map": "a map, as in a:1,b:2",
}
_MAPS: Final = frozenset(
    {"storage_options", *(key for key, option in OPTIONS.items() if option.kind == "map")}
)


def value_of(field: dataclasses.Field[Any], given: Any) -> Any:
    """The value of a setting from a text, or from a value of a TOML file.

    A time may be `5 min`, a size `64 mb`; a choice is found in any case, with `-` or `_`. Raises
    ValueError, whose message says what is wanted; bounds are checked later.
    """
    wanted, unit = type_of(field), unit_of(field)
    text = str(given).strip()
    try:
        if wanted is bool:
            return _TRUTH[text.lower()]
        if wanted is dict:
            return _map_of(given)
        if wanted is tuple:
            texts = [given] if isinstance(given, str) else given
            parts = (part.strip() for each in texts for part in str(each).split(","))
            return tuple(filter(None, parts))
        if isinstance(given, bool):
            raise ValueError(given)
        if wanted is int:
            return _whole(text, unit)
        if wanted is float:
            return float(_quantity(text, unit))
    except (ValueError, KeyError, TypeError, OverflowError):
        raise ValueError(_wanted(field)) from None
    return choice_of(text, accepted(field).choices)


def _whole(text: str, unit: str) -> int:
    """The whole number of a text; see `_quantity`."""
    value = _quantity(text, unit)
    whole = int(value)
    if whole != value:
        raise ValueError(text)
    return whole


def _quantity(text: str, unit: str) -> float:
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


def _map_of(given: Any) -> dict[str, Any]:
    """A map, from a map or a JSON object; raises ValueError."""
    found = given if isinstance(given, Mapping) else json.loads(str(given))
    if not isinstance(found, Mapping):
        raise ValueError(given)
    return dict(found)


def _wanted(field: dataclasses.Field[Any]) -> str:
    """What a setting wants, for errors."""
    unit = unit_of(field)
    if unit in ("ms", "s"):
        wanted = _KINDS["ms"]
    elif unit == "bytes":
        wanted = "a size with or without a unit (20 kb, 64 mb)"
    else:
        wanted = _WANTED.get(type_of(field), "text")
    bounds = accepted_text(field)
    return f"it must be {wanted}" + (f", {bounds}" if bounds else "")


def option_value(key: str, value: Any) -> Any:
    """A value of an execution option, converted to the option's type; raises ValueError."""
    option = OPTIONS[key]
    kind = option.kind
    text = str(value).strip()
    try:
        if kind == "bool":
            return _TRUTH[text.lower()]
        if kind == "int":
            return int(text)
        if kind == "ms":
            return _whole(text, "ms")
        if kind == "list":
            parts = re.split("[;,]", text) if isinstance(value, str) else value
            return tuple(part.strip() for part in parts if part.strip())
        if kind == "map":
            return dict(value) if isinstance(value, Mapping) else _pairs(text)
    except (ValueError, KeyError, TypeError, OverflowError):
        raise ValueError(f"it must be {_KINDS[kind]}") from None
    if option.choices:
        chosen = choice_of(text, option.choices)
        if chosen not in option.choices:
            raise ValueError(f"it must be one of {', '.join(option.choices)}")
        return chosen
    return text


def _pairs(text: str) -> dict[str, str]:
    """Flink's texts of maps: `a:1,b:2`, or `class:A,serializer:B;class:C,serializer:D`."""
    found: dict[str, str] = {}
    for entry in filter(None, (part.strip() for part in text.split(";"))):
        named = (pair.split(":", 1) for pair in entry.split(","))
        pairs = {name.strip(): value.strip() for name, value in named}
        if pairs.keys() == {"class", "serializer"}:
            found[pairs["class"]] = pairs["serializer"]
        else:
            found |= pairs
    return found


@dataclass(frozen=True)
class ParsedSettings:
    """Settings by name, and options of Flink by key, converted to their types."""

    values: Mapping[str, Any] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, Origin] = field(default_factory=dict)
    """The place of each value and option."""

    def __or__(self, other: ParsedSettings) -> ParsedSettings:
        """These settings, overridden by others."""
        return ParsedSettings(
            {**self.values, **other.values},
            {**self.options, **other.options},
            {**self.origins, **other.origins},
        )


class SettingsParser:
    """Converts the settings of one kind of process by its fields; of an application also by Flink's
    keys and options.

    Settings `elsewhere`, of other processes that share a file or an environment, are left out.
    """

    def __init__(
        self,
        settings: type[SettingsGroup],
        elsewhere: Iterable[str] = (),
        *,
        is_application: bool = False,
    ) -> None:
        self._fields = {name_of(field): field for field in settings_of(settings)}
        self._elsewhere = frozenset(elsewhere) - self._fields.keys()
        self._flink = flink_names(self._fields.values())
        self._options = SPELLINGS if is_application else {}
        self._warned: set[str] = set()

    @property
    def known(self) -> list[str]:
        """All names of settings and options."""
        return sorted({*self._fields, *self._flink, *self._options})

    def load(
        self, environment: Mapping[str, str], stronger: Iterable[Source], process: str = ""
    ) -> ParsedSettings:
        """The settings of a file, of the environment, and of stronger sources, the strongest last.

        The strongest source with the setting `config` names the file. Raises InvalidRequestError
        with key and place of an unknown, misspelt or invalid setting.
        """
        variables = environment_source(environment, (*self.known, FILE_NAME), self._elsewhere)
        sources = [dict(each) for each in (variables, *stronger)]
        files = [each.pop(FILE_NAME)[0] for each in sources if FILE_NAME in each]
        if file := next(filter(None, reversed(files)), None):
            sources.insert(0, dict(file_source(str(file), process, _MAPS)))
        return functools.reduce(ParsedSettings.__or__, map(self.parse, sources))

    def claims(self, key: str) -> bool:
        """True if a key of Spark's configuration without a prefix is one of Flink's.

        A key that is only similar to a known one is claimed too, so that `parse` refuses it;
        other keys belong to other programs.
        """
        known = self._flink.keys() | self._options.keys()
        if key in known or key.startswith("queryable-state."):
            return True
        if not key.startswith(NAMESPACES):
            return False
        if reason_without_effect(key, known) is not None:
            return True
        return nearest(key, known, similarity=SIMILAR) is not None

    def parse(self, source: Source) -> ParsedSettings:
        """Converts the settings of a source.

        Raises InvalidRequestError with the key and the place of an unknown or invalid setting; a
        known key of Flink without effect is logged.
        """
        values: dict[str, Any] = {}
        options: dict[str, Any] = {}
        origins: dict[str, Origin] = {}
        for name, (given, origin) in source.items():
            key = self._flink.get(name, name)
            if key in self._fields:
                target, value = values, _converted(self._fields[key], given, origin)
            elif name in self._options:
                key = self._options[name]
                target, value = options, _option(key, given, origin)
            else:
                self._without_effect(name, origin)
                continue
            if key in target and target[key] != value:
                raise InvalidRequestError(
                    f"{origin.key} and {origins[key].key} are the same setting, but differ: "
                    f"{value!r} and {target[key]!r} ({origin.place}): remove one"
                )
            target[key], origins[key] = value, origin
        return ParsedSettings(values, options, origins)

    def _without_effect(self, name: str, origin: Origin) -> None:
        """Logs why a known key of Flink has no effect; refuses an unknown name."""
        if name in self._elsewhere:
            return
        known = self.known if self._options else [*self._fields, *self._elsewhere]
        reason = reason_without_effect(name, known) if self._options else None
        if reason is None:
            raise _unknown_setting(origin, name, known)
        warn_without_effect(origin.key, reason, self._warned)


def flink_names(settings: Iterable[dataclasses.Field[Any]]) -> dict[str, str]:
    """Field names by each of Flink's keys of the field."""
    return {key: field.name for field in settings for key in accepted(field).flink}


def _converted(field: dataclasses.Field[Any], given: Any, origin: Origin) -> Any:
    try:
        return value_of(field, given)
    except ValueError as problem:
        shown = "(not shown)" if accepted(field).secret else repr(given)
        raise InvalidRequestError(f"{origin.key} is {shown} ({origin.place}): {problem}") from None


def _option(key: str, given: Any, origin: Origin) -> Any:
    try:
        return option_value(key, given)
    except ValueError as problem:
        raise InvalidRequestError(
            f"{origin.key} is {given!r} ({origin.place}): {problem}"
        ) from None


def _unknown_setting(origin: Origin, name: str, known: Iterable[str]) -> InvalidRequestError:
    """The error of a name that is no setting, with the most similar one."""
    names = sorted(known)
    # Also a flag in the table of its process (`proxy.port`), and a key of Spark's in a file.
    guesses = (name, origin.key.replace(".", "_"), origin.key.rpartition(".")[2])
    similar = next(filter(None, (nearest(guess, names) for guess in guesses)), None)
    hint = f"did you mean {similar!r}? " if similar else ""
    return InvalidRequestError(
        f"{origin.key} ({origin.place}) is not a setting; {hint}docs/settings.md lists the "
        "settings",
        candidates=names,
    )


def built(settings: type[_Group], found: ParsedSettings) -> _Group:
    """The settings object of parsed settings, with its nested groups.

    Raises InvalidRequestError for a value that is not accepted, or a missing one.
    """
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for each in dataclasses.fields(settings):
        name, kind = name_of(each), type_of(each)
        if issubclass(kind, SettingsGroup):
            values[each.name] = built(kind, found)
        elif name in found.values:
            values[each.name], origins[each.name] = found.values[name], found.origins[name]
        elif each.default is each.default_factory is dataclasses.MISSING:
            flag, variable = name.replace("_", "-"), name.upper()
            raise InvalidRequestError(
                f"{name} is not set: give --{flag}, set QUERYABLE_STATE_{variable}, or write "
                f"{name} into the file of --config"
            )
    return settings(**values, origins=origins)
