"""Parser of the settings of an application: its fields, and Flink's keys and options."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from queryable_state.server.config.names import SIMILAR, SettingNames, nearest
from queryable_state.server.config.parsed_settings import (
    ParsedSettings,
    converted,
    unknown_setting,
)
from queryable_state.server.config.parsing import TRUTH, choice_of, quantity
from queryable_state.server.settings.durability_settings import flink_names
from queryable_state.server.settings.execution_options import OPTIONS, SPELLINGS
from queryable_state.server.settings.flink_keys import (
    NAMESPACES,
    reason_without_effect,
    warn_without_effect,
)
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from queryable_state.server.config.settings_group import Origin
    from queryable_state.server.config.sources import Source

_KINDS: Final = {
    "bool": "true or false",
    "int": "a whole number",
    "ms": "a time with or without a unit (10 s, 5 min)",
    "list": "a list, as in a;b",
    "map": "a map, as in a:1,b:2",
}


class SettingsParser:
    """Converts the settings of an application by its fields and Flink's execution options."""

    def __init__(self, names: SettingNames) -> None:
        self._fields = names.fields
        self._elsewhere = names.elsewhere
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
        return nearest(key, known, similarity=SIMILAR) is not None

    def parse(self, source: Source) -> ParsedSettings:
        """Converts the settings of a source.

        Raises InvalidRequestError with the key and the place of an unknown or invalid setting; a
        known key of Flink without effect is logged.
        """
        checked: dict[str, Any] = {}
        options: dict[str, Any] = {}
        origins: dict[str, Origin] = {}
        for name, given in source.given.items():
            origin = source.origin(name)
            field = self._flink.get(name, name)
            key = field if field in self._fields else SPELLINGS.get(name)
            if key is None:
                self._without_effect(name, origin)
                continue
            if key in self._fields:
                target, value = checked, converted(self._fields[key], given, origin)
            else:
                target, value = options, _option(key, given, origin)
            if key in target and target[key] != value:
                raise InvalidRequestError(
                    f"{origin.key} and {origins[key].key} are the same setting, but differ: "
                    f"{value!r} and {target[key]!r} ({origin.place}): remove one"
                )
            target[key], origins[key] = value, origin
        return ParsedSettings(checked, options, origins)

    def _without_effect(self, name: str, origin: Origin) -> None:
        """Logs why a known key of Flink has no effect; refuses an unknown name."""
        if name in self._elsewhere:
            return
        reason = reason_without_effect(name, self.known)
        if reason is None:
            raise unknown_setting(origin, name, self.known)
        warn_without_effect(origin.key, reason, self._warned)


def _option(key: str, given: Any, origin: Origin) -> Any:
    try:
        return option_value(key, given)
    except ValueError as problem:
        raise InvalidRequestError(
            f"{origin.key} is {given!r} ({origin.place}): {problem}"
        ) from None


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
