"""Text of errors in user code: the place in the user's program, and the value at hand."""

from __future__ import annotations

import sysconfig
import traceback
from typing import Any, Final

_PATHS = sysconfig.get_paths()
_LIBRARIES = tuple({_PATHS[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_OWN: Final = "/queryable_state/"
_MOST_CHARACTERS: Final = 200
_MOST_OF_MESSAGE: Final = 2000


def place_of(error: BaseException) -> str:
    """`FILE:LINE in FUNCTION` of the innermost frame in the user's program; empty if none is."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if _is_of_user(frame):
            return f"{frame.filename}:{frame.lineno} in {frame.name}"
    return ""


def users_traceback(error: BaseException) -> str:
    """The traceback of an error in user code, from the user's first frame on, with its causes.

    Complete if no frame is the user's.
    """
    whole = traceback.TracebackException.from_exception(error)
    seen: set[int] = set()
    part: traceback.TracebackException | None = whole
    while part is not None and id(part) not in seen:
        seen.add(id(part))
        first = next((at for at, frame in enumerate(part.stack) if _is_of_user(frame)), 0)
        part.stack = traceback.StackSummary.from_list(list(part.stack)[first:])
        part = part.__cause__ or part.__context__
    return "".join(whole.format()).rstrip()


def at_place(error: BaseException) -> str:
    """The place in the user's program, for a note on an error of this package."""
    place = place_of(error)
    return f" ({place})" if place else ""


def described(error: BaseException) -> str:
    """Class and text of an error in user code, shortened, and its place in the user's program."""
    text = shortened(str(error), _MOST_OF_MESSAGE)
    return f"{type(error).__name__}: {text}{at_place(error)}"


def shown(value: Any) -> str:
    """A value for the text of an error, shortened."""
    try:
        text = repr(value)
    except Exception as error:  # noqa: BLE001 - a user's __repr__ may raise anything
        return f"a {type(value).__name__} whose repr failed: {error!r}"
    return shortened(text, _MOST_CHARACTERS)


def shortened(text: str, most: int) -> str:
    """The text, or its first characters and its length."""
    return text if len(text) <= most else f"{text[:most]}... ({len(text)} characters)"


def _is_of_user(frame: traceback.FrameSummary) -> bool:
    return not frame.filename.startswith(_LIBRARIES) and _OWN not in frame.filename
