"""What a burst took is given back, although what stays lies between."""

from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import time
from queryable_state.server.process.memory import MemoryTrimmer, _rss_bytes
with MemoryTrimmer():
    before = _rss_bytes()
    # Blocks of glibc's heap; every thousandth stays, and holds the heap's end where it is.
    blocks = [bytearray(10_000) for _ in range(20_000)]
    assert _rss_bytes() > before + 150_000_000
    blocks = blocks[::1000]
    ends_s = time.monotonic() + 60
    while _rss_bytes() > before + 20_000_000:
        assert time.monotonic() < ends_s, (_rss_bytes() - before) >> 20
        time.sleep(0.1)
"""


def test_memory_of_a_burst_goes_back_to_the_machine() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True, timeout=120)
