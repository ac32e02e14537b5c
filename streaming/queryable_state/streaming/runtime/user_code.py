"""Text of errors in user code: the place in the user's program, and the value at hand."""

from __future__ import annotations

import sysconfig
import traceback
from typing import Any, Final

_PATHS = sysconfig.get_paths()
_LIBRARIES = tuple({_PATHS[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_OWN: Final = "/queryable_state/"
_MOST_CHARACTERS: Final = 200


def place_of(error: BaseException) -> str:
    """`FILE:LINE in FUNCTION` of the innermost frame in the user's program; empty if none is."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if not frame.filename.startswith(_LIBRARIES) and _OWN not in frame.filename:
            return f"{frame.filename}:{frame.lineno} in {frame.name}"
    return ""


def at_place(error: BaseException) -> str:
    """The place in the user's program, for a note on an error of this package."""
    place = place_of(error)
    return f" ({place})" if place else ""


def described(error: BaseException) -> str:
    """Class and text of an error in user code, and its place in the user's program."""
    return f"{type(error).__name__}: {error}{at_place(error)}"


def shown(value: Any) -> str:
    """A value for the text of an error, shortened."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - a user's __repr__ may raise anything
        return f"a {type(value).__name__} whose repr failed: {error!r}"
    if len(text) <= _MOST_CHARACTERS:
        return text
    return f"{text[:_MOST_CHARACTERS]}... ({len(text)} characters)"
