"""How a process of ours gives memory back to its machine."""

from __future__ import annotations

import ctypes
import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Callable

# Of mallopt(3) in glibc.
_MMAP_THRESHOLD = -3
_LARGE_BYTES = 256 * 1024

_EVERY_S = 2.0
_LONGEST_S = 8.0
# Of the time for what a trim takes.
_SHARE = 500
# Growth that is looked into; and what a trim has to give back to be worth the next one as soon.
_GROWTH_BYTES = 4 * 1024 * 1024


class MemoryTrimmer:
    """Gives back what glibc keeps of requests and answers that are gone, while `with` lasts.

    Memory that was freed stays in glibc's heaps between what is in use. A thread trims them after
    the process has grown, and more and more seldom where that gives nothing back.
    """

    def __init__(self, rss_bytes: Callable[[], int] | None = None) -> None:
        self._rss_bytes = rss_bytes or _rss_bytes
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory trimmer", daemon=True)

    def __enter__(self) -> Self:
        libc = ctypes.CDLL(None)
        # Other libraries than glibc have neither.
        if hasattr(libc, "malloc_trim") and hasattr(libc, "mallopt"):
            # Fixed; otherwise it grows up to 32 MiB with the blocks that are freed.
            libc.mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
            self._trim = libc.malloc_trim
            self._thread.start()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        floor_bytes, pause_s = self._rss_bytes(), _EVERY_S
        while not self._ended.wait(pause_s):
            before_bytes = self._rss_bytes()
            if before_bytes <= floor_bytes + _GROWTH_BYTES:
                floor_bytes, pause_s = min(floor_bytes, before_bytes), _EVERY_S
                continue
            begun_s = time.monotonic()
            self._trim(0)
            took_s = time.monotonic() - begun_s
            gave_back = before_bytes - self._rss_bytes() >= _GROWTH_BYTES
            pause_s = _EVERY_S if gave_back else min(_LONGEST_S, 2 * pause_s)
            # Others wait for the heaps meanwhile.
            pause_s = max(pause_s, _SHARE * took_s)


def _rss_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")
