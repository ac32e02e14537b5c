"""Parts of keys in every kind of read, on stores of both backends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.state_server.owner import KEYS, STATE_ID, VALUES, key_of

from queryable_state.server.config.limits import Limits
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import Reason
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.keys.pending_timers import PendingTimer
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE, list_element
from queryable_state.wire.keys.time_window import TIME_WINDOW_TYPE, TimeWindow
from queryable_state.wire.keys.timer_keys import Clock
from queryable_state.wire.schema.types import Types
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    from tests.state_server.owner import Owner

KEY = key_of(0)
WHOLE = KEYS.wire_key(KEY)
ENTRY_KEY = KeyCodec(Types.STRING()).encode("a")
CHUNK = ValueCodec.of(Types.LIST(Types.LONG())).encode([1])
WINDOW = TimeWindow(0, 10)
IN_WINDOW = {"namespace": WINDOW.namespace}
OF_ENTRY = {"elements": [ENTRY_KEY]}
TIMER = PendingTimer(Clock.EVENT_TIME, 9).element

READS: list[tuple[str, bool, tuple[bytes, bytes, bytes], str, dict[str, Any]]] = [
    ("VALUE", False, (VOID_NAMESPACE, b"", VALUES.encode(1)), "PREFIX SIZE EXISTS", {}),
    ("LIST", False, (VOID_NAMESPACE, list_element(0, 0), CHUNK), "PREFIX SIZE EXISTS SLICE", {}),
    ("MAP", False, (VOID_NAMESPACE, ENTRY_KEY, VALUES.encode(1)), "PREFIX SIZE EXISTS", {}),
    ("MAP", False, (VOID_NAMESPACE, ENTRY_KEY, VALUES.encode(1)), "ENTRY EXISTS", OF_ENTRY),
    ("TIMER", False, (b"", TIMER, b""), "PREFIX SIZE EXISTS", {}),
    ("VALUE", True, (WINDOW.namespace, b"", VALUES.encode(1)), "WINDOWS", {}),
    ("LIST", True, (WINDOW.namespace, list_element(0, 0), CHUNK), "WINDOWS", {}),
    ("LIST", True, (WINDOW.namespace, list_element(0, 0), CHUNK), "PREFIX SIZE SLICE", IN_WINDOW),
    ("TIMER", True, (b"", TIMER, b""), "PREFIX SIZE EXISTS", {}),
]


def own(owner: Owner, kind: str, windowed: bool, record: tuple[bytes, bytes, bytes]) -> None:
    """Stores the record under `KEY`."""
    owner.registration.kind = registration_pb2.StateKind.Value(kind)
    if windowed:
        owner.registration.namespace_type.CopyFrom(TIME_WINDOW_TYPE.to_proto())
    owner.engine.limits = Limits()
    owner.own_all()
    owner.seal_records(0, [(KEY, *record)])
    owner.commit(0)


async def ask(owner: Owner, *keys: bytes, **fields: Any) -> query_pb2.Answer:
    query = query_pb2.Query(id=5, state_id=STATE_ID, keys=keys, **fields)
    answer = owner.engine.answer(query)
    return answer or await owner.engine.answer_later(query)


@pytest.mark.parametrize(("kind", "windowed", "record", "reads", "fields"), READS)
async def test_only_whole_keys_are_read(
    owner: Owner,
    kind: str,
    windowed: bool,
    record: tuple[bytes, bytes, bytes],
    reads: str,
    fields: dict[str, Any],
) -> None:
    own(owner, kind, windowed, record)
    others = [WHOLE[:length] for length in range(len(WHOLE))]
    others += [WHOLE + b"\x00", WHOLE + record[0], WHOLE + WINDOW.namespace[:9]]
    for name in reads.split():
        asked = fields | {"read": query_pb2.ReadKind.Value(name)}
        assert len((await ask(owner, WHOLE, **asked)).values) == 1, name
        for key in others:
            if key == WHOLE:
                continue
            for at_version in ({}, {"at_version": 0}, {"explain": True}):
                answer = await ask(owner, WHOLE, key, **asked, **at_version)
                error = answer.error
                assert error.reason == Reason.INVALID_REQUEST, (name, key)
                assert not answer.values
                assert f"key {key[:16].hex()}... ({len(key)} bytes) of the query" in error.message
                assert "exactly one key of state 'last'" in error.message
                # Of other keys, and so of the rest of this one, the error tells nothing.
                assert WHOLE[: len(key) + 1].hex() not in error.message or len(key) >= len(WHOLE)


async def test_a_point_read_of_a_part_of_a_key_finds_nothing(owner: Owner) -> None:
    own(owner, "VALUE", False, (VOID_NAMESPACE, b"", VALUES.encode(1)))
    parts = [WHOLE[:length] for length in range(2, len(WHOLE))]
    answer = await ask(owner, *parts, WHOLE, WHOLE + b"\x00")
    assert len(answer.values) == 1
    assert list(answer.missing) == [*range(len(parts)), len(parts) + 1]


async def test_a_key_under_another_key_group_has_no_records(owner: Owner) -> None:
    own(owner, "LIST", False, (VOID_NAMESPACE, list_element(0, 0), CHUNK))
    other = bytes([WHOLE[0], WHOLE[1] ^ 1]) + WHOLE[2:]
    answer = await ask(owner, other, read=query_pb2.PREFIX)
    assert list(answer.missing) == [0]
