"""Settings of a command's process, from its flags, the environment and a file."""

from __future__ import annotations

import argparse
import dataclasses
import os
from typing import TYPE_CHECKING, Any, TypeVar

from queryable_state.server.config.effective import meanings_of
from queryable_state.server.config.parser import SettingsParser, built
from queryable_state.server.config.setting import (
    Origin,
    SettingsGroup,
    accepted,
    name_of,
    settings_of,
    type_of,
    unit_of,
)
from queryable_state.server.config.sources import FILE_NAME, Source
from queryable_state.server.settings.environment_settings import known_names

if TYPE_CHECKING:
    from collections.abc import Mapping

_Group = TypeVar("_Group", bound=SettingsGroup)

_DEST = "setting_"


def add_settings(parser: argparse.ArgumentParser, settings: type[SettingsGroup]) -> None:
    """Adds `--config` and a flag for each setting, with dashes in its name."""
    parser.add_argument(
        "--config",
        metavar="FILE",
        help="TOML file of settings, by the names of the flags with underscores; flags and "
        "environment variables QUERYABLE_STATE_<NAME> count before it",
    )
    meanings = _meanings(settings)
    for field in settings_of(settings):
        rule, name = accepted(field), name_of(field)
        if rule.flags is None:
            continue
        help_text = meanings.get(field.name, "").replace("%", "%%").replace("`", "")
        parser.add_argument(
            f"--{name.replace('_', '-')}",
            *rule.flags,
            dest=_DEST + name,
            default=argparse.SUPPRESS,
            metavar=_metavar(field),
            help=help_text,
            **_form(field),
        )


def process_settings(
    settings: type[_Group],
    process: str,
    options: argparse.Namespace,
    environment: Mapping[str, str] = os.environ,
) -> _Group:
    """The settings of a process: defaults, file, environment and flags, each before the last.

    Raises InvalidRequestError for a setting that is unknown, missing or not accepted.
    """
    parser = SettingsParser(settings, elsewhere=known_names())
    return built(settings, parser.load(environment, [_flags(options)], process))


def _flags(options: argparse.Namespace) -> Source:
    given = {_DEST + FILE_NAME: options.config, **vars(options)}
    names = [name.removeprefix(_DEST) for name in given if name.startswith(_DEST)]
    return {
        name: (given[_DEST + name], Origin("flag", f"--{name.replace('_', '-')}")) for name in names
    }


def _meanings(settings: type[SettingsGroup]) -> dict[str, str]:
    """The meanings of the settings of a class and of its nested groups."""
    found = meanings_of(settings)
    for field in _nested(settings):
        found = meanings_of(type_of(field)) | found
    return found


def _nested(settings: type[SettingsGroup]) -> list[dataclasses.Field[Any]]:
    fields = dataclasses.fields(settings)
    return [field for field in fields if issubclass(type_of(field), SettingsGroup)]


def _form(field: dataclasses.Field[Any]) -> dict[str, Any]:
    """Arguments of argparse: a truth value may be left out, a list may be given several times."""
    if type_of(field) is bool:
        return {"nargs": "?", "const": "true"}
    return {"action": "append"} if type_of(field) is tuple else {}


def _metavar(field: dataclasses.Field[Any]) -> str:
    unit = unit_of(field) or accepted(field).unit
    return {"ms": "TIME", "s": "TIME", "bytes": "SIZE", "ports": "PORTS"}.get(
        unit, {int: "N", dict: "JSON", bool: "true|false"}.get(type_of(field), "VALUE")
    )
