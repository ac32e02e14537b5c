"""Memory that a process needs no more is given back."""

from __future__ import annotations

import subprocess
import sys

import pytest

BURST = """
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
CYCLE = """
import gc
import time
from queryable_state.server.process.memory import MemoryTrimmer, _rss_bytes
with MemoryTrimmer():
    before = _rss_bytes()
    connection = {"answer": bytearray(100_000_000)}
    connection["itself"] = connection
    gc.collect()
    del connection
    ends_s = time.monotonic() + 60
    while _rss_bytes() > before + 20_000_000:
        assert time.monotonic() < ends_s, (_rss_bytes() - before) >> 20
        time.sleep(0.1)
"""


@pytest.mark.parametrize(
    "program",
    [pytest.param(BURST, id="burst"), pytest.param(CYCLE, id="cycle", marks=pytest.mark.slow)],
)
def test_memory_of_what_has_ended_goes_back_to_the_machine(program: str) -> None:
    """Between blocks that stay, and in a cycle that a collection has found alive."""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)
