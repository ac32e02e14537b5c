"""Names of settings: those of a process, those of others, and detection of misspelt ones."""

from __future__ import annotations

import dataclasses
import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from queryable_state.server.config.setting import accepted, name_of, type_of
from queryable_state.server.config.settings_group import SettingsGroup

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

CONF_PREFIX: Final = "spark.queryable_state."
ENVIRONMENT_PREFIX: Final = "QUERYABLE_STATE_"
FILE_NAME: Final = "config"
"""Name of the setting that names the TOML file."""

SIMILAR: Final = 0.85
"""Similarity from which on a name that may belong to another program counts as a misspelt one."""

_PLAIN: Final = "queryablestate"
# What Kubernetes puts into each container for a service `queryable-state...`.
_KUBERNETES: Final = re.compile(r"_SERVICE_(HOST|PORT(_\w+)?)$|_PORT_\d+_(TCP|UDP|SCTP)")


@dataclass(frozen=True)
class SettingNames:
    """The settings of one process by name, and the names that others have."""

    fields: Mapping[str, dataclasses.Field[Any]]
    """Settings by their name; those of nested groups among them."""

    elsewhere: frozenset[str] = frozenset()
    """Names of other processes, which one file or environment may set too."""

    @classmethod
    def of(cls, settings: type[SettingsGroup], elsewhere: Iterable[str] = ()) -> SettingNames:
        """The names of a settings class and its nested groups."""
        fields = {name_of(field): field for field in settings_of(settings)}
        return cls(fields, frozenset(elsewhere) - fields.keys())


def settings_of(settings: type[SettingsGroup]) -> list[dataclasses.Field[Any]]:
    """The settings of a class and of its nested groups; not fields that are derived."""
    found: list[dataclasses.Field[Any]] = []
    for field in dataclasses.fields(settings):
        kind = type_of(field)
        if issubclass(kind, SettingsGroup):
            found += settings_of(kind)
        elif not accepted(field).derived:
            found.append(field)
    return found


def nearest(key: str, known: Iterable[str], *, similarity: float = 0.75) -> str | None:
    """The known key that is most similar to an unknown one; None if none is similar."""
    found = difflib.get_close_matches(key, list(known), n=1, cutoff=similarity)
    return found[0] if found else None


def variable_of(name: str) -> str:
    """The environment variable of a setting."""
    return ENVIRONMENT_PREFIX + re.sub(r"[.-]", "_", name).upper()


def is_of_kubernetes(variable: str, value: str) -> bool:
    """True for a variable that Kubernetes sets for a service of a similar name."""
    return bool(_KUBERNETES.search(variable)) or (variable.endswith("_PORT") and "://" in value)


def meant_variable(variable: str, suffixes: Iterable[str]) -> str | None:
    """The variable that was meant, if only the prefix `QUERYABLE_STATE_` is misspelt."""
    upper = variable.upper()
    for suffix in sorted(suffixes, key=len, reverse=True):
        head = upper.removesuffix(suffix)
        if head != upper and head and _is_like_ours(head) and variable != variable_of(suffix):
            return ENVIRONMENT_PREFIX + suffix
    return None


def meant_key(key: str) -> str | None:
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
