"""Places that settings come from: a TOML file, the environment, flags."""

from __future__ import annotations

import logging
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from queryable_state.server.config.names import (
    ENVIRONMENT_PREFIX,
    SIMILAR,
    is_of_kubernetes,
    meant_variable,
    nearest,
    variable_of,
)
from queryable_state.server.config.settings_group import Origin
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_log = logging.getLogger(__name__)

TABLE: Final = "queryable_state"
PROCESSES: Final = ("proxy", "serve")
"""Tables of a file for one kind of process each, beside the settings of all."""

# Variables of clients and of machines, which are no settings of a process.
_OTHER_VARIABLES: Final = frozenset(
    ("SERVER", "TOKEN", "TLS", "TLS_CA", "TLS_CERTIFICATE", "TLS_KEY", "ADVERTISED_HOST")
)
_HEADER: Final = re.compile(r"\s*\[+([^\[\]]+)\]+")
_PART: Final = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_ASSIGNMENT: Final = re.compile(rf"\s*({_PART}(?:\s*\.\s*{_PART})*)\s*=")


@dataclass(frozen=True)
class Source:
    """The settings of one place, by name, as they stand there."""

    given: Mapping[str, Any]
    origins: Mapping[str, Origin] = field(default_factory=dict)

    def origin(self, name: str) -> Origin:
        """Where a setting of this source stands."""
        return self.origins[name]


def environment_source(
    environment: Mapping[str, str], known: Iterable[str], elsewhere: Collection[str] = ()
) -> Source:
    """The settings of environment variables `QUERYABLE_STATE_<NAME>`.

    Raises InvalidRequestError for a variable that is only similar to one of ours, in its prefix or
    its name. Variables of Kubernetes and of clients are no settings; another variable with our
    prefix is logged.
    """
    names = {variable_of(name).removeprefix(ENVIRONMENT_PREFIX): name for name in known}
    others = {variable_of(name).removeprefix(ENVIRONMENT_PREFIX) for name in elsewhere}
    others |= _OTHER_VARIABLES
    given: dict[str, str] = {}
    origins: dict[str, Origin] = {}
    for variable, value in environment.items():
        if is_of_kubernetes(variable, value):
            continue
        suffix = variable.removeprefix(ENVIRONMENT_PREFIX)
        if suffix in names and suffix != variable:
            given[names[suffix]] = value
            origins[names[suffix]] = Origin("environment", variable)
            continue
        if suffix in others and suffix != variable:
            continue
        if suffix == variable:
            meant = meant_variable(variable, (*names, *others))
        else:
            similar = nearest(suffix, (*names, *others), similarity=SIMILAR)
            meant = similar and ENVIRONMENT_PREFIX + similar
        if meant:
            raise InvalidRequestError(
                f"{variable} (environment) is not a setting; did you mean {meant!r}? "
                "docs/settings.md lists the settings"
            )
        if suffix != variable:
            _log.warning(
                "environment variable %s is not a setting and has no effect: docs/settings.md "
                "lists the settings",
                variable,
            )
    return Source(given, origins)


def file_source(path: str, process: str = "", maps: Collection[str] = ()) -> Source:
    """The settings of a TOML file: of its table `queryable_state` if it has one, else of all of it.

    The tables `proxy` and `serve` in it are for that process alone and count before the others.
    `maps` are the settings whose values are tables. Raises InvalidRequestError if the file cannot
    be read, or has settings outside of a table that looks like ours.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as problem:
        raise InvalidRequestError(
            f"the settings file {path!r} is not TOML (name = value): {problem}"
        ) from problem
    except (OSError, ValueError) as problem:
        raise InvalidRequestError(
            f"the settings file {path!r} cannot be read: {problem}"
        ) from problem
    for name in values:
        if name != TABLE and isinstance(values[name], Mapping) and nearest(name, [TABLE]):
            raise InvalidRequestError(
                f"the settings file {path!r} has a table [{name}]; did you mean [{TABLE}]?"
            )
    table = values.get(TABLE, values)
    prefix = f"{TABLE}." if TABLE in values else ""
    if not isinstance(table, Mapping):
        raise InvalidRequestError(f"{TABLE} in the settings file {path!r} must be a table")
    lines = _lines(text)
    given: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    own = {name: value for name, value in table.items() if name not in PROCESSES}
    special = table.get(process, {}) if process else {}
    for part, head in ((own, prefix), (special, f"{prefix}{process}.")):
        for name, value in _flattened(part, "", maps):
            line = lines.get(head + name)
            place = f"file {path}" + (f", line {line}" if line else "")
            given[name] = value
            origins[name] = Origin(place, (head + name).removeprefix(prefix))
    return Source(given, origins)


def _flattened(
    table: Mapping[str, Any], prefix: str, maps: Collection[str]
) -> Iterable[tuple[str, Any]]:
    """The settings of nested tables with dotted names; values that are maps stay whole."""
    for name, value in table.items():
        full = f"{prefix}{name}"
        if isinstance(value, Mapping) and full not in maps:
            yield from _flattened(value, f"{full}.", maps)
        else:
            yield full, value


def _lines(text: str) -> dict[str, int]:
    """Line numbers by dotted name; of tables too. Names in multi-line values may be missed."""
    found: dict[str, int] = {}
    head = ""
    for number, line in enumerate(text.splitlines(), start=1):
        if header := _HEADER.match(line):
            name = _dotted(header[1])
            found.setdefault(name, number)
            head = name + "."
        elif assignment := _ASSIGNMENT.match(line):
            found.setdefault(head + _dotted(assignment[1]), number)
    return found


def _dotted(name: str) -> str:
    parts: list[str] = re.findall(_PART, name)
    return ".".join(part.strip("\"'") for part in parts)
