"""Row check: one number per row that combines a hash of the row with its key group.

The lowest bits are the key group. It is a single number because every extra column of a shuffle is
written and read row by row.
"""

from __future__ import annotations

from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from queryable_state.wire.keys.key_groups import MAX_MAX_PARALLELISM

GROUP_BITS: Final = MAX_MAX_PARALLELISM
"""Bit mask of the key group."""

Number = TypeVar("Number", int, npt.NDArray[np.int64])
"""A number, or one for each row."""


def row_check(row_hash: Number, key_group: Number) -> Number:
    """The check of a row, or of each row of an array."""
    return row_hash & ~GROUP_BITS | key_group
