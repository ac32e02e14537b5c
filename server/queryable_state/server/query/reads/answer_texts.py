"""Values as JSON texts; large ones are written on a thread, to keep the event loop free."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import QueryableStateError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from queryable_state.wire.located_state import LocatedState
    from queryable_state.wire.state_json import StateJson

_LARGE_BYTES = 16 * 1024
_SLICE_S = 0.005


def text_of_nothing(located: LocatedState, read: query_pb2.ReadKind.ValueType) -> str | None:
    """The JSON text for an absent key of a read that answers with several things, or with whether
    there is one; None: the read fails."""
    if read == query_pb2.EXISTS:
        return "false"
    is_several = read == query_pb2.WINDOWS or located.registration.kind == registration_pb2.TIMER
    return "[]" if is_several else None


async def answer_text(
    texts: StateJson,
    read: query_pb2.ReadKind.ValueType,
    value: bytes,
    info: query_pb2.ReadInfo,
) -> str:
    """Returns the JSON text of one answer, as `StateJson.answer_text` does."""
    if len(value) > _LARGE_BYTES:
        return await asyncio.to_thread(texts.answer_text, read, value, info)
    return texts.answer_text(read, value, info)


async def tell_answers(
    texts: StateJson,
    read: query_pb2.ReadKind.ValueType,
    values: Iterable[tuple[int, bytes]],
    info: query_pb2.ReadInfo,
    tell: Callable[[int, bytes, str], None],
    refuse: Callable[[int, QueryableStateError], None],
) -> None:
    """Calls `tell` with each value and its text, `refuse` for each that cannot be decoded."""
    until_s = time.perf_counter() + _SLICE_S
    for at, value in values:
        try:
            tell(at, value, await answer_text(texts, read, value, info))
        except QueryableStateError as unreadable:
            refuse(at, unreadable)
        if time.perf_counter() >= until_s:
            await asyncio.sleep(0)
            until_s = time.perf_counter() + _SLICE_S
