"""Values of the keys that a scan returns."""

from __future__ import annotations

from queryable_state.client import (
    KvState,
    ValueState,
)

ALL = {f"sensor_{number}": float(number) for number in range(100)}


def value(state: KvState | None) -> float:
    assert isinstance(state, ValueState)
    return float(state.value())


async def rest_of(scan: object) -> dict[str, KvState | None]:
    return {key: state async for key, state in scan}  # type: ignore[attr-defined]
