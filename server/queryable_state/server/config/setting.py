"""A setting: a dataclass field with its bounds, choices, unit and other names.

`setting` declares one, as the value of a field of a `SettingsGroup`:

    lease_ms: int = setting(5_000, least=100, most=HOUR_MS)

The bounds stand at the field alone. `SettingsGroup` checks them when an object is made, and
docs/settings.md prints them. Plain dataclasses, because each Python worker of Spark imports them.
"""

from __future__ import annotations

import copy
import dataclasses
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Self

from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

SECOND_MS: Final = 1_000
HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS
HOUR_S: Final = 3_600
DAY_S: Final = 24 * HOUR_S
KIB: Final = 1 << 10
MIB: Final = 1 << 20
GIB: Final = 1 << 30
TIB: Final = 1 << 40
LARGEST_INT: Final = 2**63 - 1

_METADATA: Final = "setting"
_UNITS: Final = {"_ms": "ms", "_s": "s", "_bytes": "bytes"}
_LARGER: Final[Mapping[str, Sequence[tuple[int, str]]]] = {
    "bytes": ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")),
    "ms": ((DAY_MS, "d"), (HOUR_MS, "h")),
    "s": ((DAY_S, "d"), (HOUR_S, "h")),
}
_TYPES: Final[Mapping[str, type]] = {
    "bool": bool,
    "int": int,
    "float": float,
    "str": str,
    "tuple[str, ...]": tuple,
}
_TYPE_TEXTS: Final[Mapping[type, str]] = {
    bool: "true or false",
    int: "a whole number",
    float: "a finite number",
    str: "text",
    dict: "a map",
    tuple: "a tuple of texts",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Accepted:
    """The values that a setting accepts, and its names and unit."""

    least: float | None = None
    """Smallest number; None: no bound."""

    most: float | None = None
    """Largest number; None: no bound."""

    special: Sequence[float] = ()
    """Numbers outside of the bounds with a meaning of their own, as -1 for unlimited."""

    choices: Sequence[str] = ()
    """Accepted texts; empty: all."""

    check: Callable[[str], object] | None = None
    """Raises ValueError for a text that is not accepted; its message says why."""

    text: str = ""
    """The accepted values in words, if bounds and choices do not say it."""

    unit: str = ""
    """Unit of a plain number; empty: what the end of the name says."""

    flink: Sequence[str] = ()
    """Flink's keys of the setting."""

    name: str = ""
    """Name of the setting in files, variables and flags; empty: the name of the field."""

    flags: Sequence[str] | None = ()
    """Short flags beside `--name`; None: the setting has no flag."""

    secret: bool = False
    """True: the value is not printed."""

    derived: bool = False
    """True: the field is not a setting but filled in by the program."""


_ANY: Final = Accepted()


def setting(
    default: Any = dataclasses.MISSING,
    *,
    default_factory: Any = dataclasses.MISSING,
    compare: bool = True,
    **rule: Any,
) -> Any:
    """Declares a dataclass field; `rule` are fields of `Accepted`, the rest is that of
    `dataclasses.field`."""
    accepted = Accepted(**rule)
    field: Any = dataclasses.field
    return field(
        default=default,
        default_factory=default_factory,
        repr=not (accepted.secret or accepted.derived),
        compare=compare,
        metadata={_METADATA: accepted},
    )


def accepted(field: dataclasses.Field[Any]) -> Accepted:
    """What a field accepts; a field without `setting` accepts each value of its type."""
    found: Accepted = field.metadata.get(_METADATA, _ANY)
    return found


def name_of(field: dataclasses.Field[Any]) -> str:
    """The name of a setting in files, variables and flags."""
    return accepted(field).name or field.name


def type_of(field: dataclasses.Field[Any]) -> type:
    """The type of a setting: bool, int, float, str, tuple (of texts), dict, or a class of
    settings."""
    named = _TYPES.get(str(field.type))
    if named is not None:
        return named
    if field.default is not dataclasses.MISSING:
        return type(field.default)
    factory: Any = field.default_factory
    return factory if isinstance(factory, type) else dict


def unit_of(field: dataclasses.Field[Any]) -> str:
    """The unit of a plain number; empty if it has none."""
    if type_of(field) not in (int, float):
        return ""
    ending = next((unit for end, unit in _UNITS.items() if field.name.endswith(end)), "")
    return accepted(field).unit or ending


def accepted_text(field: dataclasses.Field[Any]) -> str:
    """The accepted values in words; empty if all values of the type are accepted."""
    rule, unit = accepted(field), unit_of(field)
    if rule.text:
        return rule.text
    if rule.choices:
        return "one of " + ", ".join(filter(None, rule.choices))
    if rule.least is None and rule.most is None:
        return ""
    special = "".join(f"{number:g} or " for number in rule.special)
    least, most = (
        None if bound is None else quantity_text(bound, unit) for bound in (rule.least, rule.most)
    )
    if most is None:
        return f"{special}at least {least}"
    return f"{special}at most {most}" if least is None else f"{special}{least} to {most}"


def quantity_text(number: float, unit: str) -> str:
    """A number with its unit, as people read it: `64 MiB`, `5,000 ms`, `0`."""
    for size, name in _LARGER.get(unit, ()):
        if number >= size and number % size == 0:
            return f"{number // size:g} {name}"
    shown = f"{number:,}" if isinstance(number, int) else f"{number:g}"
    if number == 1 and unit == "bytes":
        unit = "byte"
    return f"{shown} {unit}" if unit and number else shown


def problem_of(field: dataclasses.Field[Any], value: object) -> str:
    """Why a setting does not accept a value, as in `it must be at least 1`; empty if it does."""
    rule, wanted = accepted(field), type_of(field)
    if wanted not in _TYPE_TEXTS:
        return "" if isinstance(value, wanted) else f"it must be {wanted.__name__}"
    if not _is_of(value, wanted):
        bounds = accepted_text(field)
        return f"it must be {_TYPE_TEXTS[wanted]}" + (f" ({bounds})" if bounds else "")
    if isinstance(value, int | float) and not isinstance(value, bool):
        low = -math.inf if rule.least is None else rule.least
        high = math.inf if rule.most is None else rule.most
        if not low <= value <= high and value not in rule.special:
            return f"it must be {accepted_text(field)}"
    if isinstance(value, str):
        if rule.choices and value not in rule.choices:
            return f"it must be {accepted_text(field)}"
        if rule.check is not None:
            try:
                rule.check(value)
            except ValueError as problem:
                return str(problem)
    return ""


def _is_of(value: object, wanted: type) -> bool:
    """True for a value of the type; a bool is no number, NaN and infinity are not accepted."""
    if wanted is bool or isinstance(value, bool):
        return wanted is bool and isinstance(value, bool)
    if wanted is float:
        return isinstance(value, int | float) and math.isfinite(value)
    if wanted is dict:
        return hasattr(value, "keys")
    if isinstance(value, tuple):
        return wanted is tuple and all(isinstance(each, str) for each in value)
    return isinstance(value, wanted)


def choice_of(text: str, choices: Iterable[str]) -> str:
    """The choice that a text names, in any case, with `-`, `_` or neither; else the text."""
    return {_plain(choice): choice for choice in choices}.get(_plain(text), text)


def _plain(text: str) -> str:
    return re.sub("[-_]", "", text).lower()


@dataclass(frozen=True, slots=True)
class Origin:
    """The place that a value came from."""

    place: str
    """`environment`, `Spark configuration`, `file /etc/job.toml, line 3`, `flag` ..."""

    key: str
    """The name of the setting there."""


@dataclass(frozen=True, kw_only=True)
class SettingsGroup:
    """Settings of one subject: base of frozen dataclasses whose fields are declared by `setting`.

    Each object is checked when it is made, also in code: an `InvalidRequestError` names the
    setting, its value, the accepted values and where the value came from. A choice may be given in
    any case, with `-` or `_`; the object has the declared spelling. A subclass checks
    relations of several fields in `check_relations`.
    """

    key_prefix: ClassVar[str] = ""
    """Begins the key of a field in errors."""

    origins: Mapping[str, Origin] = setting(default_factory=dict, derived=True, compare=False)
    """The places that values came from, by field; a default, or a value of code, has none."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            rule, value = accepted(field), getattr(self, field.name)
            if rule.choices and isinstance(value, str):
                value = choice_of(value, rule.choices)
                object.__setattr__(self, field.name, value)
            if not rule.derived:
                problem = problem_of(field, value)
                if problem:
                    raise InvalidRequestError(f"{self.named(field.name)}: {problem}")
        self.check_relations()

    def completed(self, **values: Any) -> Self:
        """A copy with fields that the program fills in, not checked again.

        A task gets settings that the driver has checked, so only what it adds could be wrong.
        """
        made = copy.copy(self)
        vars(made).update(values)
        return made

    def check_relations(self) -> None:
        """Raises InvalidRequestError for values that do not fit together; see `require`."""

    def require(self, fits: bool, names: tuple[str, ...], rule: str) -> None:
        """Raises InvalidRequestError with the values of the named fields unless they fit."""
        if not fits:
            values = " and ".join(map(self.named, names))
            raise InvalidRequestError(f"{values}: {rule}")

    def origin(self, name: str) -> Origin | None:
        """The place that the value of a field came from; None for a default or a value of code."""
        return self.origins.get(name)

    def named(self, name: str) -> str:
        """Key, value and origin of a field, for errors."""
        fields = {field.name: field for field in dataclasses.fields(self)}
        value = "(not shown)" if accepted(fields[name]).secret else repr(getattr(self, name))
        origin = self.origin(name)
        if origin is None:
            return f"{self.key_prefix}{name_of(fields[name])} is {value}"
        return f"{origin.key} is {value} ({origin.place})"

    @classmethod
    def from_settings(cls, wider: object, **others: Any) -> Self:
        """Settings with the fields that `wider` has too, also in nested groups, and `others`.

        The rest are defaults.
        """
        shared: dict[str, Any] = {}
        for field in dataclasses.fields(cls):
            kind = type_of(field)
            if issubclass(kind, SettingsGroup):
                shared[field.name] = kind.from_settings(wider)
            elif hasattr(wider, field.name):
                shared[field.name] = getattr(wider, field.name)
        names = {field.name for field in dataclasses.fields(cls)}
        if "origins" in shared:
            of_wider = shared["origins"]
            shared["origins"] = {name: of_wider[name] for name in of_wider.keys() & names}
        return cls(**shared | others)


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
