"""Garbage collection of the client process while it measures.

A service can tune its collector; most do not. Every figure is of one of the two modes.
"""

from __future__ import annotations

import contextlib
import gc
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


class GcMode(StrEnum):
    """A configuration of the collector in the client process."""

    TUNED = "tuned"
    """Few collections, and objects that existed before the loop are frozen."""
    DEFAULT = "default"
    """Python's own thresholds; nothing is frozen."""


TUNED_THRESHOLDS = (100_000, 50, 1000)


@contextlib.contextmanager
def collecting(mode: GcMode = GcMode.TUNED) -> Iterator[None]:
    """Applies a mode to the block, which begins without garbage."""
    gc.collect()
    if mode is GcMode.DEFAULT:
        yield
        return
    thresholds = gc.get_threshold()
    gc.set_threshold(*TUNED_THRESHOLDS)
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()
        gc.set_threshold(*thresholds)
