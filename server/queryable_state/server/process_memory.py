"""How a process of ours gives memory back to its machine."""

from __future__ import annotations

import ctypes

# Of mallopt(3) in glibc.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_LARGE_BYTES = 64 * 1024
_TRIM_BYTES = 4 * 1024 * 1024


def return_large_blocks() -> None:
    """Has what large requests and answers took go back when it is freed.

    By default glibc keeps blocks of up to 32 MiB in its heaps once it has seen one freed, between
    others that are in use.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_TRIM_THRESHOLD, _TRIM_BYTES)
