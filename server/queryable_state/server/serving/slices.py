"""Time slicing of long work on the event loop."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_SLICE_S = 0.005

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


async def in_slices(work: Callable[[_Item], _Result], items: Iterable[_Item]) -> list[_Result]:
    """Applies `work` to each item and yields to the event loop every few milliseconds."""
    results = []
    until_s = time.perf_counter() + _SLICE_S
    for item in items:
        results.append(work(item))
        if time.perf_counter() >= until_s:
            await asyncio.sleep(0)
            until_s = time.perf_counter() + _SLICE_S
    return results
