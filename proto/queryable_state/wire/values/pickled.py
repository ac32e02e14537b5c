"""Pickled values, which stay bytes until the reader loads them."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

from queryable_state.wire.errors import SerializationError

Pickle = Callable[[object], bytes]
"""Pickles an object; may raise anything."""


class PickledValue(bytes):
    """A pickle that is not loaded. `load()` runs code that the pickle names: trust the job."""

    __slots__ = ()

    def load(self) -> Any:
        """Unpickles the object; raises SerializationError if that fails."""
        try:
            return pickle.loads(self)  # noqa: S301 - the caller asked for this very pickle
        except Exception as error:
            raise SerializationError(
                f"cannot load the pickled value: {type(error).__name__}: {error}; install the "
                "packages that it names, or read it without unpickling"
            ) from error

    def __repr__(self) -> str:
        return f"PickledValue({len(self)} bytes)"

    @staticmethod
    def dump(value: object, path: str, pickled: Pickle) -> bytes:
        """Pickles an object by this function; `path` names the value in errors."""
        if isinstance(value, PickledValue):
            return bytes(value)
        try:
            return pickled(value)
        except Exception as error:
            raise SerializationError(
                f"{path} cannot be pickled: {type(error).__name__}: {error}"
            ) from error
