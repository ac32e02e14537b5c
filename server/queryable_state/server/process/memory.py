"""Trimming of free memory, which glibc keeps, back to the operating system."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

# Option of mallopt(3) in glibc.
_MMAP_THRESHOLD = -3
_LARGE_BYTES = 256 * 1024

_EVERY_S = 2.0
_LONGEST_S = 8.0
# Least ratio of the pause to the duration of a trim, which is long on a busy machine, too.
_PAUSE_RATIO = 500
_LONGEST_FOR_TRIM_S = 30.0
# Growth that triggers a trim; a trim that frees less makes the next pause longer.
_GROWTH_BYTES = 4 * 1024 * 1024
# So many more containers than after the last collection may be garbage in cycles: the servers'
# thresholds leave it alone for long. After a longest pause there may be garbage that the count
# leaves out: few objects that hold much memory, and what an earlier collection found alive.
_MAYBE_GARBAGE = 1_000


class MemoryTrimmer:
    """Trims the memory of freed requests and answers while `with` lasts.

    Freed memory stays in glibc's heaps between used blocks, and the requests of ended connections
    in reference cycles. A thread collects and trims them after the process has grown, and less
    often while that frees little.
    """

    def __init__(self, rss_bytes: Callable[[], int] | None = None) -> None:
        self._rss_bytes = rss_bytes or _rss_bytes
        self._floor_bytes = self._rss_bytes()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory trimmer", daemon=True)

    def __enter__(self) -> Self:
        libc = ctypes.CDLL(None)
        # Only glibc has these functions.
        if hasattr(libc, "malloc_trim") and hasattr(libc, "mallopt"):
            # A fixed threshold; otherwise it grows up to 32 MiB with the size of freed blocks.
            libc.mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
            self._trim = libc.malloc_trim
            self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        floor_bytes, pause_s, collected_s = self._floor_bytes, _EVERY_S, time.monotonic()
        while not self._ended.wait(pause_s):
            before_bytes = self._rss_bytes()
            if before_bytes <= floor_bytes + _GROWTH_BYTES:
                floor_bytes, pause_s = min(floor_bytes, before_bytes), _EVERY_S
                continue
            begun_s = time.monotonic()
            if gc.get_count()[0] >= _MAYBE_GARBAGE or begun_s - collected_s >= _LONGEST_S:
                gc.collect()
                collected_s = begun_s
            self._trim(0)
            took_s = time.monotonic() - begun_s
            freed = before_bytes - self._rss_bytes() >= _GROWTH_BYTES
            pause_s = _EVERY_S if freed else min(_LONGEST_S, 2 * pause_s)
            # A trim locks the heaps, so other threads wait for it.
            pause_s = max(pause_s, min(_LONGEST_FOR_TRIM_S, _PAUSE_RATIO * took_s))


def _rss_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
