"""Count of the rows of each key in one task, for hot keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from queryable_state.internal.v1.changes_pb2 import KeyRows

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    Slots = npt.NDArray[np.int64]

MOST_KEYS = 64


class KeyRowCounter:
    """Counts rows by the slots of their keys."""

    def __init__(self) -> None:
        self._rows: Slots = np.zeros(0, dtype=np.int64)

    def add(self, slots: Slots, keys: int) -> None:
        """Adds the rows of a chunk; `keys` is the number of all slots so far."""
        counted = np.bincount(slots, minlength=keys)
        counted[: len(self._rows)] += self._rows
        self._rows = counted

    def most(self, wire_keys: Sequence[bytes]) -> KeyRows:
        """The keys with the most rows, at most 64; `wire_keys` are all keys by slot.

        A key that has as many rows as one that is left out is left out too, so a task that sees
        each key equally often reports none.
        """
        rows = self._rows
        most_omitted = 0
        slots: Slots = np.arange(len(rows))
        if len(rows) > MOST_KEYS:
            split = len(rows) - MOST_KEYS
            order = np.argpartition(rows, split - 1)
            most_omitted = int(rows[order[split - 1]])
            slots = order[split:]
        slots = slots[rows[slots] > most_omitted]
        slots = slots[np.argsort(-rows[slots], kind="stable")]
        return KeyRows(
            keys=[wire_keys[slot] for slot in slots.tolist()],
            rows=rows[slots].tolist(),
            total=int(rows.sum()),
            most_omitted=most_omitted,
        )
