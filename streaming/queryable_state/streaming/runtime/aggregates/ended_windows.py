"""Windows whose timers fire in a task, decoded from the keys of the timers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from queryable_state.wire.keys.timer_keys import ELEMENT_BYTES

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from queryable_state.streaming.runtime.aggregates.time_windows import Millis

_NAMESPACE = np.dtype([("tag", "u1"), ("start", ">u8"), ("end", ">u8")])
_ELEMENT = np.dtype([("clock", "u1"), ("time", ">u8")])
_BIAS = np.uint64(1 << 63)


class EndedWindows:
    """A page of due timers, each of one key and window."""

    def __init__(self, index_keys: Sequence[bytes]) -> None:
        self.prefixes = [key[ELEMENT_BYTES:] for key in index_keys]
        """Wire key and namespace of each timer."""
        size = _NAMESPACE.itemsize
        self.wire_keys = [prefix[:-size] for prefix in self.prefixes]
        data = b"".join([prefix[-size:] for prefix in self.prefixes])
        namespaces = np.frombuffer(data, dtype=_NAMESPACE)
        self.starts = _signed(namespaces["start"])
        """Start of each timer's window."""
        self.ends = _signed(namespaces["end"])
        """End of each timer's window, exclusive."""
        elements = b"".join([key[:ELEMENT_BYTES] for key in index_keys])
        self.times = _signed(np.frombuffer(elements, dtype=_ELEMENT)["time"])
        """Timestamp of each timer."""


def _signed(biased: npt.NDArray[np.uint64]) -> Millis:
    times: Millis = (biased.astype(np.uint64) ^ _BIAS).view(np.int64)
    return times
