"""Validation of change blocks that tasks send."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.v1.registration_pb2 import StateKind
from queryable_state.wire.errors import (
    CorruptDataError,
    InvalidRequestError,
    LimitExceededError,
)
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.keys.store_keys import split_record_key
from queryable_state.wire.keys.timer_keys import ELEMENT_BYTES, Clock
from queryable_state.wire.operator_state import OPERATOR_KINDS
from queryable_state.wire.schema.types import TypeInfo

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.internal.v1 import changes_pb2
    from queryable_state.server.config.limits import Limits
    from queryable_state.server.state_server.stores.owned_subtask import OwnedSubtask
    from queryable_state.v1 import registration_pb2

# A store key holds a key with its key group, a namespace and an element, which in a map is
# another key.
_PARTS = 2
_NAMESPACE_BYTES = 32
_LENGTH_BYTES = 4


def check_block(block: changes_pb2.ChangeBlock, subtask: OwnedSubtask, limits: Limits) -> None:
    """Raises if a block has foreign states or key groups, or exceeds a limit."""
    registration = subtask.states.get(block.state_id)
    if registration is None:
        raise InvalidRequestError(
            f"a change block names state {block.state_id}, which operator "
            f"{subtask.id.operator_uid!r} has not declared in its begin"
        )
    keyed = any((block.put_keys, block.deleted_keys, block.cleared_prefixes))
    if (registration.kind in OPERATOR_KINDS) != bool(block.operator_states) or (
        keyed and block.operator_states
    ):
        raise InvalidRequestError(
            f"state {registration.state_name!r} is of kind "
            f"{StateKind.Name(registration.kind)}: a change block of operator state has only "
            "elements, and one of keyed state has none"
        )
    for change in block.operator_states:
        _check_elements(registration, change.elements, limits)
    for keys in (block.put_keys, block.deleted_keys, block.cleared_prefixes):
        if keys:
            _check_keys(registration, keys, subtask, limits)
    if registration.kind == StateKind.TIMER:
        _check_timers(registration, block)
    elif block.put_values:
        sizes = list(map(len, block.put_values))
        if min(sizes) == 0:
            raise InvalidRequestError(
                f"state {registration.state_name!r}: a value is empty and lacks even its format "
                "byte"
            )
        if max(sizes) > limits.value_bytes:
            position = sizes.index(max(sizes))
            raise LimitExceededError(
                f"state {registration.state_name!r}, key "
                f"{_readable(registration, block.put_keys[position])}: the value has "
                f"{sizes[position]} bytes, the limit is {limits.value_bytes} (value_bytes): store "
                "less under one key, use a map or list state, or raise the limit"
            )


def _check_timers(
    registration: registration_pb2.StateRegistration, block: changes_pb2.ChangeBlock
) -> None:
    if any(block.put_values):
        raise InvalidRequestError(
            f"state {registration.state_name!r}: a timer has a value; send it without one"
        )
    for keys in (block.put_keys, block.deleted_keys):
        if keys and not (
            min(map(len, keys)) > ELEMENT_BYTES
            and max(key[-ELEMENT_BYTES] for key in keys) <= Clock.EVENT_TIME
        ):
            raise InvalidRequestError(
                f"state {registration.state_name!r}: a key is not that of a timer: it must end "
                "with clock and timestamp"
            )


def _check_elements(
    registration: registration_pb2.StateRegistration, elements: Sequence[bytes], limits: Limits
) -> None:
    sizes = list(map(len, elements))
    if sizes and min(sizes) == 0:
        raise InvalidRequestError(
            f"state {registration.state_name!r}: an element is empty and lacks even its format byte"
        )
    # An entry of a broadcast state has a key beside its value.
    longest = limits.value_bytes
    if registration.kind == StateKind.BROADCAST:
        longest += limits.key_bytes + _LENGTH_BYTES
    if sizes and max(sizes) > longest:
        raise LimitExceededError(
            f"state {registration.state_name!r}: element {sizes.index(max(sizes))} has "
            f"{max(sizes)} bytes, the limit is {longest} (value_bytes): split it, or raise the "
            "limit"
        )


def _check_keys(
    registration: registration_pb2.StateRegistration,
    keys: Sequence[bytes],
    subtask: OwnedSubtask,
    limits: Limits,
) -> None:
    lowest, highest = min(keys), max(keys)
    if (
        int.from_bytes(lowest[:2]) < subtask.first_key_group
        or int.from_bytes(highest[:2]) > subtask.last_key_group
        or min(map(len, keys)) < 2
    ):
        raise InvalidRequestError(
            f"state {registration.state_name!r}: keys {lowest[:16].hex()} to {highest[:16].hex()} "
            f"are not all in key groups {subtask.first_key_group} to {subtask.last_key_group} of "
            f"{subtask.id}"
        )
    longest = max(keys, key=len)
    if len(longest) > limits.key_bytes * _PARTS + _NAMESPACE_BYTES:
        raise LimitExceededError(
            f"state {registration.state_name!r}, key {_readable(registration, longest)}: the "
            f"stored key has {len(longest)} bytes, the limit is {limits.key_bytes} (key_bytes): "
            "use shorter keys, or raise the limit"
        )


def _readable(registration: registration_pb2.StateRegistration, store_key: bytes) -> str:
    """Returns the key as text, shortened; its bytes in hex if it cannot be decoded."""
    try:
        codec = KeyCodec(TypeInfo.from_proto(registration.key_type))
        wire_key, _, _ = split_record_key(store_key, codec)
        text = repr(codec.decode(wire_key, 2)[0])
    except (CorruptDataError, InvalidRequestError):
        text = store_key.hex()
    return text if len(text) <= 100 else f"{text[:100]}..."
