"""Configuration by keys: PyFlink's Configuration."""

from __future__ import annotations

from typing import Any, Self

from queryable_state.wire.errors import InvalidRequestError


class Configuration:
    """A mutable set of key-value pairs.

    A getter converts the stored value, as Flink does: the text "1" is the integer 1. It raises
    InvalidRequestError if the value cannot be converted. Not thread-safe.
    """

    def __init__(self, other: Configuration | None = None) -> None:
        self._values: dict[str, Any] = {} if other is None else dict(other._values)

    def get_string(self, key: str, default_value: str) -> str:
        """The value as text."""
        return _text(self._values.get(key, default_value))

    def set_string(self, key: str, value: str) -> Self:
        """Sets a text."""
        return self._set(key, str(value))

    def get_integer(self, key: str, default_value: int) -> int:
        """The value as an integer."""
        return int(self._get(key, default_value, int, "a whole number"))

    def set_integer(self, key: str, value: int) -> Self:
        """Sets an integer."""
        return self._set(key, int(value))

    def get_boolean(self, key: str, default_value: bool) -> bool:
        """The value as a boolean: the texts `true` and `false`, in any case."""
        return bool(self._get(key, default_value, _truth, "true or false"))

    def set_boolean(self, key: str, value: bool) -> Self:
        """Sets a boolean."""
        return self._set(key, bool(value))

    def get_float(self, key: str, default_value: float) -> float:
        """The value as a float."""
        return float(self._get(key, float(default_value), float, "a number"))

    def set_float(self, key: str, value: float) -> Self:
        """Sets a float."""
        return self._set(key, float(value))

    def get_bytearray(self, key: str, default_value: bytearray) -> bytearray:
        """A copy of the bytes that were set."""
        return bytearray(self._get(key, default_value, _bytes, "a byte array"))

    def set_bytearray(self, key: str, value: bytearray) -> Self:
        """Sets bytes."""
        return self._set(key, bytearray(value))

    def key_set(self) -> set[str]:
        """The keys that are set."""
        return set(self._values)

    def contains_key(self, key: str) -> bool:
        """True if the key is set."""
        return key in self._values

    def remove_config(self, key: str) -> bool:
        """Removes a key; False if it was not set."""
        return self._values.pop(key, None) is not None

    def add_all(self, other: Configuration, prefix: str | None = None) -> Self:
        """Sets all pairs of another configuration, with `prefix` before each key."""
        for key, value in other._values.items():
            self._values[(prefix or "") + key] = value
        return self

    def add_all_to_dict(self, target_dict: dict[str, Any]) -> None:
        """Puts all pairs into a dict, with the types they were set with."""
        target_dict.update(self._values)

    def to_dict(self) -> dict[str, str]:
        """All pairs as texts."""
        return {key: _text(value) for key, value in self._values.items()}

    def _set(self, key: str, value: Any) -> Self:
        if not key:
            raise InvalidRequestError("the key of a configuration value is empty")
        self._values[key] = value
        return self

    def _get(self, key: str, default: Any, convert: Any, wanted: str) -> Any:
        if key not in self._values:
            return default
        try:
            return convert(self._values[key])
        except (TypeError, ValueError):
            raise InvalidRequestError(
                f"the value of {key} is {self._values[key]!r}, which is not {wanted}"
            ) from None

    def __copy__(self) -> Configuration:
        return Configuration(self)

    def __deepcopy__(self, memodict: object = None) -> Configuration:
        return Configuration(self)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Configuration) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(frozenset(self.to_dict().items()))

    def __str__(self) -> str:
        return "{" + ", ".join(f"{key}={value}" for key, value in self.to_dict().items()) + "}"

    def __repr__(self) -> str:
        return f"Configuration({self})"


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return str(value)


def _truth(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    truth = {"true": True, "false": False}.get(str(value).strip().lower())
    if truth is None:
        raise ValueError(value)
    return truth


def _bytes(value: Any) -> bytearray:
    if not isinstance(value, bytes | bytearray):
        raise TypeError(value)
    return bytearray(value)
