"""Parser of textual settings from Spark's configuration, the environment and a file."""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from queryable_state.server.config.parsing import TRUTH, quantity, value_of
from queryable_state.server.config.setting import accepted
from queryable_state.server.config.settings_group import Origin
from queryable_state.streaming.config.durability_settings import flink_names
from queryable_state.streaming.config.execution_options import OPTIONS, SPELLINGS
from queryable_state.streaming.config.flink_keys import (
    NAMESPACES,
    nearest,
    reason_without_effect,
    warn_without_effect,
)
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

CONF_PREFIX = "spark.queryable_state."
ENVIRONMENT_PREFIX = "QUERYABLE_STATE_"
FILE_KEY = "file"
_SPARK = "Spark configuration"

_SIMILAR = 0.85
"""Similarity from which on a name that may belong to another program counts as a misspelt one."""

_KINDS = {
    "bool": "true or false",
    "int": "a whole number",
    "ms": "a time with or without a unit (10 s, 5 min)",
    "list": "a list, as in a;b",
    "map": "a map, as in a:1,b:2",
}


@dataclass(frozen=True)
class ParsedSettings:
    """Settings by field name, and Flink's execution options by key, converted to their types."""

    values: Mapping[str, Any]
    options: Mapping[str, Any]
    origins: Mapping[str, Origin]
    """The place of each value and option, by field name and key."""

    def __or__(self, other: ParsedSettings) -> ParsedSettings:
        """These settings, overridden by others."""
        return ParsedSettings(
            {**self.values, **other.values},
            {**self.options, **other.options},
            {**self.origins, **other.origins},
        )


def settings_of(
    fields: Iterable[dataclasses.Field[Any]],
    conf: Mapping[str, str],
    environment: Mapping[str, str],
) -> ParsedSettings:
    """The settings of a Spark configuration, an environment and the file that they name.

    A field has its own name and possibly Flink's names. In Spark's configuration Flink's names may
    also be used without the prefix. The order of precedence is: prefixed configuration,
    configuration without prefix, environment, file. Raises InvalidRequestError with the full key
    of an unknown or invalid setting; a known key of Flink without effect is logged.
    """
    parser = SettingsParser(fields)
    prefixed = {
        key.removeprefix(CONF_PREFIX): value
        for key, value in conf.items()
        if key.startswith(CONF_PREFIX)
    }
    bare = {key: value for key, value in conf.items() if parser.claims(key)}
    names = {_as_variable(name): name for name in (*parser.known, FILE_KEY)}
    variables = {
        names[name]: value
        for key, value in environment.items()
        if key.startswith(ENVIRONMENT_PREFIX)
        and _is_known((name := key.removeprefix(ENVIRONMENT_PREFIX)), names)
    }
    file = prefixed.pop(FILE_KEY, "") or variables.pop(FILE_KEY, "")
    variables.pop(FILE_KEY, None)
    parsed = parser.parse(_read_file(file) if file else {}, f"file {file}")
    parsed |= parser.parse(variables, "environment", _variable_of)
    parsed |= parser.parse(bare, _SPARK)
    return parsed | parser.parse(prefixed, _SPARK, CONF_PREFIX.__add__)


class SettingsParser:
    """Converts textual settings by the fields of a settings class and Flink's execution options."""

    def __init__(self, fields: Iterable[dataclasses.Field[Any]]) -> None:
        self._fields = {field.name: field for field in fields if not accepted(field).derived}
        self._flink = flink_names(self._fields.values())
        self._warned: set[str] = set()

    @property
    def known(self) -> list[str]:
        """All names of settings and options."""
        return sorted({*self._fields, *self._flink, *SPELLINGS})

    def claims(self, key: str) -> bool:
        """True if a key of Spark's configuration without a prefix is one of Flink's.

        A key that is only similar to a known one is claimed too, so that `parse` refuses it;
        other keys belong to other programs.
        """
        if key in self._flink or key in SPELLINGS:
            return True
        if key.startswith("queryable-state."):
            return True
        if not key.startswith(NAMESPACES):
            return False
        known = self._flink.keys() | SPELLINGS.keys()
        if reason_without_effect(key, known) is not None:
            return True
        return nearest(key, known, similarity=_SIMILAR) is not None

    def parse(
        self, values: Mapping[str, Any], place: str, spelled: Callable[[str], str] = str
    ) -> ParsedSettings:
        """Converts settings by name; `place` and `spelled(name)` say in errors where one stands."""
        checked: dict[str, Any] = {}
        options: dict[str, Any] = {}
        origins: dict[str, Origin] = {}
        for name, given in values.items():
            field = self._flink.get(name, name)
            key = field if field in self._fields else SPELLINGS.get(name)
            origin = Origin(place, spelled(name))
            if key is None:
                self._without_effect(name, origin)
                continue
            target = checked if key in self._fields else options
            try:
                value = (
                    value_of(self._fields[key], given)
                    if key in self._fields
                    else option_value(key, given)
                )
            except ValueError as problem:
                raise InvalidRequestError(
                    f"{origin.key} is {given!r} ({place}): {problem}"
                ) from None
            if key in target and target[key] != value:
                raise InvalidRequestError(
                    f"{origin.key} and {origins[key].key} are the same setting, but differ: "
                    f"{value!r} and {target[key]!r} ({place}): remove one"
                )
            target[key], origins[key] = value, origin
        return ParsedSettings(checked, options, origins)

    def _without_effect(self, name: str, origin: Origin) -> None:
        """Logs why a known key of Flink has no effect; refuses an unknown name."""
        reason = reason_without_effect(name, self.known)
        if reason is not None:
            warn_without_effect(origin.key, reason, self._warned)
            return
        similar = nearest(name, self.known)
        hint = f"did you mean {similar!r}? " if similar else ""
        raise InvalidRequestError(
            f"{origin.key} ({origin.place}) is not a setting; {hint}docs/settings.md lists the "
            "settings",
            candidates=self.known,
        )


def option_value(key: str, value: Any) -> Any:
    """A value of an execution option, converted to the option's type; raises ValueError."""
    option = OPTIONS[key]
    kind = option.kind
    text = str(value).strip()
    try:
        if kind == "bool":
            return TRUTH[text.lower()]
        if kind == "int":
            return int(text)
        if kind == "ms":
            return quantity(text, "ms")
        if kind == "list":
            parts = re.split("[;,]", text) if isinstance(value, str) else value
            return tuple(part.strip() for part in parts if part.strip())
        if kind == "map":
            return dict(value) if isinstance(value, Mapping) else _pairs(text)
    except (ValueError, KeyError, TypeError):
        raise ValueError(f"it must be {_KINDS[kind]}") from None
    if option.choices:
        named = {choice.upper(): choice for choice in option.choices}
        if text.upper() not in named:
            raise ValueError(f"it must be one of {', '.join(option.choices)}")
        return named[text.upper()]
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


def _is_known(variable: str, names: Iterable[str]) -> bool:
    """True if a variable without its prefix is a setting.

    Raises InvalidRequestError if it is only similar to one; other variables may belong to other
    programs.
    """
    if variable in names:
        return True
    similar = nearest(variable, names, similarity=_SIMILAR)
    if similar is not None:
        raise InvalidRequestError(
            f"{ENVIRONMENT_PREFIX}{variable} is not a setting; did you mean "
            f"{ENVIRONMENT_PREFIX + similar!r}? docs/settings.md lists the settings"
        )
    return False


def _variable_of(name: str) -> str:
    return ENVIRONMENT_PREFIX + _as_variable(name)


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
    """The settings of nested tables with dotted names; values that are maps stay whole."""
    for name, value in table.items():
        full = f"{prefix}{name}"
        is_map = full == "storage_options" or (full in OPTIONS and OPTIONS[full].kind == "map")
        if isinstance(value, Mapping) and not is_map:
            yield from _flattened(value, f"{full}.")
        else:
            yield full, value
