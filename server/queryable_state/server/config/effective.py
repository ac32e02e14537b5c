"""Settings as people read them: the effective ones of a process, and the meaning of each."""

from __future__ import annotations

import ast
import dataclasses
import functools
import itertools
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from queryable_state.server.config.setting import (
    SettingsGroup,
    accepted,
    name_of,
    type_of,
    unit_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

MASK: Final = "***"
DEFAULT: Final = "default"
CODE: Final = "code"

_CREDENTIALS: Final = re.compile(r"://[^/@\s]+@")


@dataclass(frozen=True)
class EffectiveSetting:
    """One setting as it is in effect; a secret value is masked."""

    name: str
    value: Any
    unit: str
    place: str
    """`default`, `code`, or the place of the value: `file /etc/job.toml, line 3` ..."""
    key: str
    """Its name at that place; empty for a default and for code."""

    @property
    def is_default(self) -> bool:
        """True if nothing set it."""
        return self.place == DEFAULT

    @property
    def source(self) -> str:
        """Place and key in one text."""
        return f"{self.place}: {self.key}" if self.key else self.place


def effective_settings(settings: SettingsGroup) -> list[EffectiveSetting]:
    """All settings of an object and of its nested groups, sorted by name."""
    return sorted(_rows(settings), key=lambda row: row.name)


def _rows(settings: SettingsGroup) -> Iterable[EffectiveSetting]:
    for field in dataclasses.fields(settings):
        value = getattr(settings, field.name)
        if isinstance(value, SettingsGroup):
            yield from _rows(value)
        elif not accepted(field).derived:
            origin = settings.origin(field.name)
            place = origin.place if origin else DEFAULT if _is_default(field, value) else CODE
            yield EffectiveSetting(
                name_of(field),
                masked(value) if accepted(field).secret else _without_credentials(value),
                unit_of(field),
                place,
                origin.key if origin else "",
            )


def masked(value: Any) -> Any:
    """A secret value without its content; the keys of a map stay."""
    if isinstance(value, dict):
        return dict.fromkeys(value, MASK)
    return MASK if value else value


def _without_credentials(value: Any) -> Any:
    return _CREDENTIALS.sub(f"://{MASK}@", value) if isinstance(value, str) else value


def _is_default(field: dataclasses.Field[Any], value: Any) -> bool:
    if field.default is not dataclasses.MISSING:
        return bool(value == field.default)
    return type_of(field) is dict and not value


def as_toml(rows: Iterable[EffectiveSetting], notes: Iterable[str] = ()) -> str:
    """The settings as a TOML file that gives the same configuration, except for masked secrets."""
    lines = [f"# {note}" for note in notes]
    lines.append("[queryable_state]")
    for row in rows:
        text = f"{row.name} = {_toml_value(row.value)}"
        if MASK in text and row.value not in ("", {}):
            text = f"# {text}"
        lines.append(f"{text}  # {row.source}")
    return "\n".join(lines) + "\n"


def as_json(rows: Iterable[EffectiveSetting]) -> str:
    """The settings as a JSON array of objects with `name`, `value`, `unit`, `place` and `key`."""
    return json.dumps([dataclasses.asdict(row) for row in rows], indent=2, default=str) + "\n"


def as_text(rows: Iterable[EffectiveSetting]) -> str:
    """The settings as a table for people."""
    cells = [("setting", "value", "from")]
    cells += [(row.name, _shown(row), row.source) for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in (0, 1)]
    wide, wider = widths
    lines = (f"{name:<{wide}}  {value:<{wider}}  {source}" for name, value, source in cells)
    return "\n".join(lines) + "\n"


def sources_text(rows: Iterable[EffectiveSetting]) -> str:
    """How many settings each kind of place set, as in `2 from the environment, 1 from code`."""
    counts: dict[str, int] = {}
    for row in rows:
        if not row.is_default:
            place = re.sub(r", line \d+$", "", row.place)
            counts[place] = counts.get(place, 0) + 1
    return ", ".join(f"{count} from {place}" for place, count in counts.items()) or "all defaults"


def _shown(row: EffectiveSetting) -> str:
    text = row.value if isinstance(row.value, str) else _toml_value(row.value)
    return f"{text} {row.unit}" if row.unit and row.value else text or '""'


def _toml_value(value: Any) -> str:
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key)} = {_toml_value(each)}" for key, each in value.items())
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml_value, value)) + "]"
    # A JSON scalar is a TOML scalar: text, number, true and false.
    return json.dumps(value, ensure_ascii=False)


def meanings_of(settings: type) -> dict[str, str]:
    """The docstrings under the fields of a class and of its bases, each on one line."""
    found: dict[str, str] = {}
    for base in reversed(settings.__mro__):
        if dataclasses.is_dataclass(base):
            found |= _of_module(str(sys.modules[base.__module__].__file__)).get(base.__name__, {})
    return found


@functools.cache
def _of_module(path: str) -> Mapping[str, Mapping[str, str]]:
    """Docstrings by class and field; empty without sources."""
    try:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    except (OSError, SyntaxError, ValueError):
        return {}
    found: dict[str, dict[str, str]] = {}
    for each in tree.body:
        if isinstance(each, ast.ClassDef):
            found[each.name] = {
                statement.target.id: " ".join(str(follower.value.value).split())
                for statement, follower in itertools.pairwise(each.body)
                if isinstance(statement, ast.AnnAssign)
                and isinstance(statement.target, ast.Name)
                and isinstance(follower, ast.Expr)
                and isinstance(follower.value, ast.Constant)
            }
    return found
