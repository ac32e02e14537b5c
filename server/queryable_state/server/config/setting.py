"""A setting: a dataclass field with its bounds, choices, unit and other names.

`setting` declares one, as the value of a field:

    lease_ms: int = setting(5_000, least=100, most=HOUR_MS)

The bounds stand at the field alone. `SettingsGroup` checks them whenever a settings object is
made, and docs/settings.md prints them.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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

_METADATA = "setting"
_UNITS: Final[Mapping[str, str]] = {"_ms": "ms", "_s": "s", "_bytes": "bytes"}
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
    least: float | None = None,
    most: float | None = None,
    special: Sequence[float] = (),
    choices: Sequence[str] = (),
    check: Callable[[str], object] | None = None,
    text: str = "",
    unit: str = "",
    flink: Sequence[str] = (),
    name: str = "",
    flags: Sequence[str] | None = (),
    secret: bool = False,
    derived: bool = False,
    compare: bool = True,
) -> Any:
    """Declares a dataclass field with the values it accepts; see `Accepted` for the arguments.

    `compare` as in `dataclasses.field`.
    """
    accepted = Accepted(
        least=least,
        most=most,
        special=special,
        choices=choices,
        check=check,
        text=text,
        unit=unit,
        flink=flink,
        name=name,
        flags=flags,
        secret=secret,
        derived=derived,
    )
    given = {"default": default, "default_factory": default_factory}
    return dataclasses.field(
        **{name: value for name, value in given.items() if value is not dataclasses.MISSING},
        repr=not (secret or derived),
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
    if unit == "bytes":
        for size, name in ((TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB")):
            if number >= size and number % size == 0:
                return f"{number // size:g} {name}"
    if unit == "ms":
        for size, name in ((DAY_MS, "d"), (HOUR_MS, "h")):
            if number >= size and number % size == 0:
                return f"{number // size:g} {name}"
    if unit == "s":
        for size, name in ((DAY_S, "d"), (HOUR_S, "h")):
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
