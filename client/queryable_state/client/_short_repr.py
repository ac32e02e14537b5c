"""Texts of values for people, of bounded length."""

from __future__ import annotations

import dataclasses
import reprlib
from itertools import islice
from typing import Any

_MOST_CHARACTERS = 2000
_MOST_ELEMENTS = 20
_MOST_OF_A_STRING = 200


class _ShortRepr(reprlib.Repr):
    """The `repr` of a value, with `...` for what is left out."""

    def __init__(self) -> None:
        super().__init__()
        self.maxlevel = 4
        self.maxlist = self.maxtuple = self.maxdict = _MOST_ELEMENTS
        self.maxset = self.maxfrozenset = self.maxdeque = self.maxarray = _MOST_ELEMENTS
        self.maxstring = self.maxlong = _MOST_OF_A_STRING
        # Rows, times and errors.
        self.maxother = _MOST_CHARACTERS // 2

    def repr_dict(self, x: dict[Any, Any], level: int) -> str:
        """In the order of the dict: that of a map's entries tells where a slice begins."""
        if x and level <= 0:
            return "{...}"
        entries = [
            f"{self.repr1(key, level - 1)}: {self.repr1(value, level - 1)}"
            for key, value in islice(x.items(), self.maxdict)
        ]
        if len(x) > self.maxdict:
            entries.append("...")
        return f"{{{', '.join(entries)}}}"

    def repr_bytes(self, x: bytes, level: int) -> str:
        """Cuts the bytes before they are written."""
        if len(x) <= self.maxstring:
            return repr(x)
        return f"{x[: self.maxstring]!r}..."


_short = _ShortRepr()


def short_repr(value: Any) -> str:
    """The `repr` of a value; a long one without its middle, or its further elements.

    Of a container that is the value or in it at most 20 elements, and at most 2,000 characters.
    """
    text = _short.repr(value)
    if len(text) <= _MOST_CHARACTERS:
        return text
    half = _MOST_CHARACTERS // 2
    return f"{text[:half]}...{text[-half:]}"


def short_fields(value: Any) -> str:
    """The `repr` of a dataclass, with that of each field as `short_repr` has it."""
    fields = (
        f"{each.name}={short_repr(getattr(value, each.name))}" for each in dataclasses.fields(value)
    )
    return f"{type(value).__name__}({', '.join(fields)})"
