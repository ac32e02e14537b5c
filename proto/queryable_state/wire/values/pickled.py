"""Pickled values: bytes that only become an object where somebody asks for it."""

from __future__ import annotations

import pickle
from typing import Any

from queryable_state.wire.errors import SerializationError


class PickledValue(bytes):
    """A pickle, not loaded. `load()` runs code the pickle names: only for a job you trust."""

    __slots__ = ()

    def load(self) -> Any:
        """The object. SerializationError when it cannot be made here."""
        try:
            return pickle.loads(self)  # noqa: S301 - the caller asked for this very pickle
        except Exception as error:
            raise SerializationError(
                f"the pickled value cannot be loaded here: {type(error).__name__}: {error}; "
                "install what it names, or leave it pickled"
            ) from error

    def __repr__(self) -> str:
        return f"PickledValue({len(self)} bytes)"

    @staticmethod
    def dump(value: object, path: str) -> bytes:
        """The pickle of an object; `path` names the value in errors."""
        if isinstance(value, PickledValue):
            return bytes(value)
        try:
            return pickle.dumps(value, protocol=5)
        except Exception as error:
            raise SerializationError(
                f"{path} cannot be pickled: {type(error).__name__}: {error}"
            ) from error
