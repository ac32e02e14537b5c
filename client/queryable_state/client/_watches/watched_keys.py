"""Keys and start of a watch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from queryable_state.client._arguments import MOST_NUMBER
from queryable_state.client._scans.scan import ALL
from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.keys.key_prefix import key_prefix

if TYPE_CHECKING:
    from queryable_state.wire.keys.key_groups import KeyGroups


@dataclass(frozen=True)
class WatchedKeys:
    """Which changes a watch returns."""

    keys: tuple[Any, ...] | None = None
    """Only these keys; None: all with the prefix."""

    prefix: Any = ALL
    """Beginning of a string or binary key, or first fields of a row or tuple key."""

    after_batch: int | None = None
    """Changes of later batches; None: of the batches committed after the watch was opened."""

    @classmethod
    def of(cls, keys: object, prefix: Any, after_batch: object) -> WatchedKeys:
        """Checks the arguments; raises `InvalidRequestError`."""
        if keys is not None and (isinstance(keys, str | bytes) or not isinstance(keys, Iterable)):
            raise InvalidRequestError(f"keys must be a list of keys, not {keys!r}")
        listed = None if keys is None else tuple(keys)
        if listed is not None and not listed:
            raise InvalidRequestError("keys is empty: name the keys to watch, or leave it out")
        if listed is not None and prefix is not ALL:
            raise InvalidRequestError("give keys or a prefix, not both")
        if after_batch is None:
            return cls(listed, prefix)
        if type(after_batch) is not int or not -1 <= after_batch <= MOST_NUMBER:
            raise InvalidRequestError(
                f"after_batch must be a batch id, or -1 for all batches: {after_batch!r}"
            )
        return cls(listed, prefix, after_batch)

    def wire_keys(self, groups: KeyGroups) -> tuple[bytes, ...]:
        """The wire keys; empty: every key. Raises `KeyTypeError` if one is not a key."""
        return tuple(map(groups.wire_key, self.keys or ()))

    def wire_prefix(self, groups: KeyGroups) -> bytes:
        """The encoded prefix; raises `KeyTypeError` if it is not the beginning of a key."""
        return key_prefix(self.prefix, groups.key_type)
