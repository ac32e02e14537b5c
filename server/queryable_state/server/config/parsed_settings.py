"""Values of settings, converted from the places that they came from, and the objects of them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from queryable_state.server.config.names import nearest
from queryable_state.server.config.parsing import value_of
from queryable_state.server.config.setting import accepted, name_of, type_of
from queryable_state.server.config.settings_group import Origin, SettingsGroup
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from queryable_state.server.config.names import SettingNames
    from queryable_state.server.config.sources import Source

_Group = TypeVar("_Group", bound=SettingsGroup)


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


def parsed(names: SettingNames, sources: Iterable[Source]) -> ParsedSettings:
    """The settings of all sources, of which the last one that has a setting counts.

    Settings of other processes are left out. Raises InvalidRequestError for an unknown name, with
    the most similar one, and for a text that is no value of the setting.
    """
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for source in sources:
        for name, given in source.given.items():
            found = names.fields.get(name)
            if found is not None:
                values[name] = converted(found, given, source.origin(name))
                origins[name] = source.origin(name)
            elif name not in names.elsewhere:
                raise unknown_setting(source.origin(name), name, (*names.fields, *names.elsewhere))
    return ParsedSettings(values, {}, origins)


def converted(setting: dataclasses.Field[Any], given: Any, origin: Origin) -> Any:
    """The value of a setting; InvalidRequestError names the place of what is none."""
    try:
        return value_of(setting, given)
    except ValueError as problem:
        shown = "(not shown)" if accepted(setting).secret else repr(given)
        raise InvalidRequestError(f"{origin.key} is {shown} ({origin.place}): {problem}") from None


def unknown_setting(origin: Origin, name: str, known: Iterable[str]) -> InvalidRequestError:
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


def built(settings: type[_Group], found: ParsedSettings, **others: Any) -> _Group:
    """The settings object of parsed settings, with its nested groups; `others` are more fields.

    Raises InvalidRequestError for a value that is not accepted, or a missing one.
    """
    values: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for each in dataclasses.fields(settings):
        name, kind = name_of(each), type_of(each)
        if issubclass(kind, SettingsGroup):
            values[each.name] = built(kind, found)
        elif name in found.values:
            values[each.name] = found.values[name]
            if name in found.origins:
                origins[each.name] = found.origins[name]
        elif each.default is each.default_factory is dataclasses.MISSING:
            flag, variable = name.replace("_", "-"), name.upper()
            raise InvalidRequestError(
                f"{name} is not set: give --{flag}, set QUERYABLE_STATE_{variable}, or write "
                f"{name} into the file of --config"
            )
    return settings(**values | others, origins=origins)
