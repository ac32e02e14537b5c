"""Places that settings come from: a TOML file, the environment, Spark's configuration.

A name that is only similar to one of ours is refused with the one that was meant.
"""

from __future__ import annotations

import difflib
import functools
import logging
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from queryable_state.server.config.setting import Origin
from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

_log = logging.getLogger(__name__)

CONF_PREFIX: Final = "spark.queryable_state."
ENVIRONMENT_PREFIX: Final = "QUERYABLE_STATE_"
FILE_NAME: Final = "config"
"""Name of the setting that names the TOML file."""

SPARK: Final = "Spark configuration"

SIMILAR: Final = 0.85
"""Similarity from which on a name that may belong to another program counts as a misspelt one."""

_PLAIN: Final = "queryablestate"
# What Kubernetes puts into each container for a service `queryable-state...`.
_KUBERNETES: Final = re.compile(r"_SERVICE_(HOST|PORT(_\w+)?)$|_PORT_\d+_(TCP|UDP|SCTP)")
_TABLE: Final = "queryable_state"
# Tables of a file for one kind of process each, beside the settings of all.
_PROCESSES: Final = ("proxy", "serve")

# Variables of clients and of machines, which are no settings of a process.
_OTHER_VARIABLES: Final = frozenset(
    ("SERVER", "TOKEN", "TLS", "TLS_CA", "TLS_CERTIFICATE", "TLS_KEY", "ADVERTISED_HOST")
)
_HEADER: Final = re.compile(r"\s*\[+([^\[\]]+)\]+")
_PART: Final = r"""(?:[\w-]+|"[^"]*"|'[^']*')"""
_ASSIGNMENT: Final = re.compile(rf"\s*({_PART}(?:\s*\.\s*{_PART})*)\s*=")


Source = Mapping[str, tuple[Any, Origin]]
"""The settings of one place by name: each as it stands there, and where it stands."""


def environment_source(
    environment: Mapping[str, str], known: Iterable[str], elsewhere: Collection[str] = ()
) -> Source:
    """The settings of environment variables `QUERYABLE_STATE_<NAME>`.

    Raises InvalidRequestError for a variable that is only similar to one of ours, in its prefix or
    its name. Variables of Kubernetes and of clients are no settings; another variable with our
    prefix is logged.
    """
    names = {_variable_of(name).removeprefix(ENVIRONMENT_PREFIX): name for name in known}
    others = {_variable_of(name).removeprefix(ENVIRONMENT_PREFIX) for name in elsewhere}
    others |= _OTHER_VARIABLES
    found: dict[str, tuple[str, Origin]] = {}
    for variable, value in environment.items():
        if _is_of_kubernetes(variable, value):
            continue
        suffix = variable.removeprefix(ENVIRONMENT_PREFIX)
        if suffix in names and suffix != variable:
            found[names[suffix]] = value, Origin("environment", variable)
            continue
        if suffix in others and suffix != variable:
            continue
        if suffix == variable:
            meant = _meant_variable(variable, (*names, *others))
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
    return found


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
        if name != _TABLE and isinstance(values[name], Mapping) and nearest(name, [_TABLE]):
            raise InvalidRequestError(
                f"the settings file {path!r} has a table [{name}]; did you mean [{_TABLE}]?"
            )
    table = values.get(_TABLE, values)
    prefix = f"{_TABLE}." if _TABLE in values else ""
    if not isinstance(table, Mapping):
        raise InvalidRequestError(f"{_TABLE} in the settings file {path!r} must be a table")
    lines = _lines(text)
    found: dict[str, tuple[Any, Origin]] = {}
    own = {name: value for name, value in table.items() if name not in _PROCESSES}
    special = table.get(process, {}) if process else {}
    for part, head in ((own, prefix), (special, f"{prefix}{process}.")):
        for name, value in _flattened(part, "", maps):
            line = lines.get(head + name)
            place = f"file {path}" + (f", line {line}" if line else "")
            found[name] = value, Origin(place, (head + name).removeprefix(prefix))
    return found


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


def conf_sources(conf: Mapping[str, str], claims: Callable[[str], bool]) -> tuple[Source, Source]:
    """The settings of Spark's configuration without a prefix, which are those that `claims`
    accepts, and with the prefix `spark.queryable_state.`, which count before them."""
    prefixed: dict[str, tuple[str, Origin]] = {}
    bare: dict[str, tuple[str, Origin]] = {}
    for key, value in conf.items():
        name = key.removeprefix(CONF_PREFIX)
        if name != key:
            prefixed[name] = value, Origin(_place(key, value), key)
        elif claims(key):
            bare[key] = value, Origin(_place(key, value), key)
        elif (meant := _meant_key(key)) is not None:
            raise InvalidRequestError(
                f"{key} ({SPARK}) is not a setting; did you mean {meant!r}? docs/settings.md lists "
                "the settings"
            )
    return bare, prefixed


def _place(key: str, value: str) -> str:
    """Spark's configuration, with the file and line if `spark-defaults.conf` has this value."""
    path, defaults = default_conf()
    found = defaults.get(key)
    if found is not None and found[0] == str(value):
        return f"{SPARK}, {path}, line {found[1]}"
    return SPARK


@functools.cache
def default_conf() -> tuple[str, Mapping[str, tuple[str, int]]]:
    """Path of `spark-defaults.conf`, and its values and lines by key; empty if there is none."""
    folder = os.environ.get("SPARK_CONF_DIR") or (
        os.environ["SPARK_HOME"] + "/conf" if os.environ.get("SPARK_HOME") else ""
    )
    path = Path(folder) / "spark-defaults.conf"
    if not folder or not path.is_file():
        return "", {}
    return str(path), read_conf(path)


def read_conf(path: Path) -> dict[str, tuple[str, int]]:
    """Values and lines of a properties file of Spark, by key."""
    found: dict[str, tuple[str, int]] = {}
    text = path.read_text(encoding="utf-8", errors="replace")
    for number, line in enumerate(text.splitlines(), start=1):
        stripped = line.strip()
        if stripped and stripped[0] not in "#!":
            cut = min((at for mark in "=: \t" if (at := stripped.find(mark)) > 0), default=0)
            if cut:
                found[stripped[:cut]] = (stripped[cut:].lstrip(" \t=:"), number)
    return found


def nearest(key: str, known: Iterable[str], *, similarity: float = 0.75) -> str | None:
    """The known key that is most similar to an unknown one; None if none is similar."""
    found = difflib.get_close_matches(key, list(known), n=1, cutoff=similarity)
    return found[0] if found else None


def _variable_of(name: str) -> str:
    """The environment variable of a setting."""
    return ENVIRONMENT_PREFIX + re.sub(r"[.-]", "_", name).upper()


def _is_of_kubernetes(variable: str, value: str) -> bool:
    """True for a variable that Kubernetes sets for a service of a similar name."""
    return bool(_KUBERNETES.search(variable)) or (variable.endswith("_PORT") and "://" in value)


def _meant_variable(variable: str, suffixes: Iterable[str]) -> str | None:
    """The variable that was meant, if only the prefix `QUERYABLE_STATE_` is misspelt."""
    upper = variable.upper()
    for suffix in sorted(suffixes, key=len, reverse=True):
        head = upper.removesuffix(suffix)
        if head != upper and head and _is_like_ours(head) and variable != _variable_of(suffix):
            return ENVIRONMENT_PREFIX + suffix
    return None


def _meant_key(key: str) -> str | None:
    """The key of Spark's configuration that was meant, if only its prefix is misspelt."""
    if key.startswith(CONF_PREFIX):
        return None
    parts = key.split(".")
    if parts[0].lower() == "spark":
        parts = parts[1:]
    if len(parts) > 1 and _is_like_ours(parts[0]):
        return CONF_PREFIX + ".".join(parts[1:])
    joined = re.fullmatch(r"queryable[_-]?state[_-](\w+)", parts[0].lower())
    if len(parts) == 1 and joined and key.lower().startswith("spark."):
        return CONF_PREFIX + joined[1]
    return None


def _is_like_ours(prefix: str) -> bool:
    plain = re.sub("[^a-z]", "", prefix.lower())
    return difflib.SequenceMatcher(None, plain, _PLAIN).ratio() >= SIMILAR
