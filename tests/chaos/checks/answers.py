"""Answers of a client as a `Read` has them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tests.chaos.checks.reads import Mode, Read

from queryable_state.client import Consistency, ListState, MapState, ValueState

if TYPE_CHECKING:
    from queryable_state.client import KvState, ReadInfo, Scan


def plain(state: KvState) -> Any:
    """A state's value as `History` has it."""
    if isinstance(state, ValueState):
        return list(state.value())
    if isinstance(state, MapState):
        return sorted([key, value] for key, value in state.items())
    if isinstance(state, ListState):
        return list(state.get())
    return list(state.get())


def told(info: ReadInfo) -> dict[str, Any]:
    """What an answer says of itself, as a `Read` has it."""
    return {
        "ended": time.time(),
        "version": info.version,
        "server": info.server_id,
        "commit_s": info.commit_time_ms / 1000,
    }


def refused(read: Read, refusal: Exception) -> Read:
    """A read that was not answered."""
    return replace(
        read, ended=time.time(), error=type(refusal).__name__, message=str(refusal), version=None
    )


async def items_of(scan: Scan, *, with_batch: bool) -> list[list[Any]]:
    """What a scan gives, as a `Read` has it."""
    items = []
    async for page in scan.pages():
        assert scan.info is not None
        batch = [scan.info.version] if with_batch else []
        items += [[key, None if state is None else plain(state), *batch] for key, state in page]
    return items


def consistency_of(read: Read) -> Consistency:
    """How a client asks for what a read asks for."""
    match read.mode:
        case Mode.COMMITTED:
            return Consistency.COMMITTED
        case Mode.UNCOMMITTED:
            return Consistency.UNCOMMITTED
        case Mode.AT_LEAST:
            return Consistency.at_least(int(read.bound))
        case Mode.WITHIN:
            return Consistency.within(read.bound)
