"""Refusals of keys that no record of the state can have."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.wire.errors import InvalidRequestError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.state_server.stores.store_table import StateRoute

_KEY_GROUP_BYTES = 2


def check_whole_keys(route: StateRoute, keys: Sequence[bytes]) -> None:
    """Raises `InvalidRequestError` unless each key is a key group and one whole encoded key.

    Reads of all records of a key are reads by prefix: a part of a key would read other keys.
    No encoded key is a prefix of another, so a whole key reads its own records only. The key
    group needs no check: under a wrong one the key has no records.
    """
    key_end = route.key_end
    for key in keys:
        if key_end(key, _KEY_GROUP_BYTES) != len(key):
            raise InvalidRequestError(
                f"key {key[:16].hex()}... ({len(key)} bytes) of the query is not exactly one key "
                f"of state {route.name!r}: send key group (2 bytes) and the whole encoded key, "
                "and nothing behind it; scans read ranges of keys"
            )


def no_key_group(route: StateRoute, position: int, key: bytes) -> InvalidRequestError:
    """Returns the refusal of a key that does not begin with a key group of the state."""
    return InvalidRequestError(
        f"key {position} of the query ({key[:16].hex()}...) does not begin with a key group below "
        f"{route.registration.max_parallelism}: send key group (2 bytes) and encoded key"
    )
