"""Layout of a state whose raw keys are its keys backwards, so that neither order is the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.native_state.operators.state_layout import (
    StateDefinition,
    StateLayout,
)
from queryable_state.server.storage.key_order import key_after
from queryable_state.v1.registration_pb2 import VALUE
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE
from queryable_state.wire.schema.types import Types
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.server.native_state.operators.state_layout import (
        KeyRange,
        RawReads,
        RawView,
    )
    from queryable_state.server.storage.overlay import Overlay

PARTITION = 3

_KEYS = KeyCodec(Types.STRING())
_VALUES = ValueCodec({1: Types.STRING()}, 1)


def store_key(key: str) -> bytes:
    """The store key of the value of a key."""
    return wire_key(key) + VOID_NAMESPACE


def wire_key(key: str) -> bytes:
    """The wire key of a key."""
    return PARTITION.to_bytes(2) + _KEYS.encode(key)


def value(text: str) -> bytes:
    """The encoded value."""
    return _VALUES.encode(text)


def raw(key: str) -> bytes:
    """The raw key of a key."""
    return key[::-1].encode()


class ReversedLayout(StateLayout):
    """One VALUE of strings in source 0; a raw value is the text."""

    sources = (0,)

    def __init__(self) -> None:
        self.definition = StateDefinition(
            name="",
            queryable_name="words",
            kind=VALUE,
            key_type=Types.STRING(),
            value_type=Types.STRING(),
            partitions=PARTITION + 1,
            operator_id=0,
            operator="test",
            spark_name="test",
            format="1",
            description="Words.",
        )

    def get(self, raw: RawReads, record_key: bytes) -> bytes | None:
        found = raw.get(0, _raw_of(record_key))
        return None if found is None else value(found.decode())

    def prefix(self, raw: RawReads, prefix: bytes, limit: int = 0) -> list[tuple[bytes, bytes]]:
        found = self.get(raw, prefix)
        return [] if found is None else [(prefix.removesuffix(VOID_NAMESPACE) + b"\0", found)]

    def scan(
        self, raw: RawView, partition: int, after: bytes = b"", keys: KeyRange | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        start = key_after(_raw_of(after)) if after else b""
        for raw_key, found in raw.scan(0, start, None):
            yield store_key(raw_key.decode()[::-1]), value(found.decode())

    def changed_keys(self, changes: Overlay, partition: int) -> Iterator[bytes]:
        if 0 in changes.states:
            for raw_key in changes.states[0].records:
                yield wire_key(raw_key.decode()[::-1])


def _raw_of(record_key: bytes) -> bytes:
    key: str = _KEYS.decode(record_key, 2)[0]
    return key[::-1].encode()
