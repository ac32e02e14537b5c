"""Keys that queries and tasks touch most often."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Any, Self

from queryable_state.v1 import hot_keys_pb2
from queryable_state.wire.errors import CorruptDataError, QueryableStateError
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.schema.types import TypeInfo


class KeySide(enum.Enum):
    """Who touches a key."""

    READ = "read"
    """Queries ask for it."""

    WRITE = "write"
    """Tasks process rows of it. The rows of an operator count for each of its keyed states."""


_SIDES = {hot_keys_pb2.HotKey.READ: KeySide.READ, hot_keys_pb2.HotKey.WRITE: KeySide.WRITE}


@dataclass(frozen=True, kw_only=True, slots=True)
class HotKey:
    """A key that was touched often in the last minute."""

    state_name: str

    key: Any
    """The decoded key."""

    key_json: str
    """The key as JSON."""

    encoded_key: bytes
    """Key group and encoded key."""

    side: KeySide

    count: int
    """How often it was touched."""

    error: int
    """The true count is at most this much larger; if `KeyTouches.sampled_every` is above 1, at
    most this much larger or smaller with a probability of 95 %."""

    share: float
    """`count` divided by the total of the state and side: 0 to 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class KeyTouches:
    """All touches of the keys of a state on one side in the last minute."""

    state_name: str

    side: KeySide

    total: int
    """Number of touches; estimated if they are sampled."""

    sampled_every: int
    """One of so many touches was counted; 1: all."""

    most_missed: int
    """A key that is not listed for lack of counters was touched at most so often."""

    operator_uid: str
    """The `WRITE` touches of all states of an operator are the same rows."""

    is_off: bool
    """True if the setting `hot_keys` is off on a server of the state."""


@dataclass(frozen=True, kw_only=True, slots=True)
class HotKeys:
    """The hot keys of a state, or of all keyed states of a job."""

    keys: tuple[HotKey, ...]
    """By state and side, in descending order of `count`."""

    totals: tuple[KeyTouches, ...]
    """By state and side."""

    window_ms: int
    """Milliseconds that the counts cover: 50,000 to 60,000, less after the start of a server."""

    complete: bool
    """True if all owners have answered."""

    errors: tuple[QueryableStateError, ...]
    """Why owners have not answered."""

    @classmethod
    def from_proto(cls, response: hot_keys_pb2.ListHotKeysResponse) -> Self:
        """Converts the wire message."""
        codecs = {
            total.state_name: KeyCodec(TypeInfo.from_proto(total.key_type))
            for total in response.totals
        }
        return cls(
            keys=tuple(
                HotKey(
                    state_name=each.state_name,
                    key=_decoded(codecs[each.state_name], each.key),
                    key_json=each.key_json,
                    encoded_key=each.key,
                    side=_SIDES[each.side],
                    count=each.count,
                    error=each.error,
                    share=each.share,
                )
                for each in response.keys
                if each.side in _SIDES
            ),
            totals=tuple(
                KeyTouches(
                    state_name=each.state_name,
                    side=_SIDES[each.side],
                    total=each.total,
                    sampled_every=each.sampled_every,
                    most_missed=each.most_missed,
                    operator_uid=each.operator_uid,
                    is_off=each.off,
                )
                for each in response.totals
                if each.side in _SIDES
            ),
            window_ms=response.window_ms,
            complete=response.complete,
            errors=tuple(map(QueryableStateError.from_proto, response.errors)),
        )


def _decoded(codec: KeyCodec, wire_key: bytes) -> Any:
    """The key; None if a query asked for bytes that are no key."""
    try:
        return codec.decode_all(wire_key[2:])
    except CorruptDataError:
        return None
