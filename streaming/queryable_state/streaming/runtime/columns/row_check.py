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

_Number = TypeVar("_Number", int, npt.NDArray[np.int64])


def row_check(row_hash: _Number, key_group: _Number) -> _Number:
    """The check of a row, or of each row of an array."""
    return row_hash & ~GROUP_BITS | key_group


def key_group_of(check: _Number) -> _Number:
    """The key group of a check."""
    return check & GROUP_BITS
