"""What each row carries beside its columns: a hash of it, whose lowest bits are its key group.

One number, because every column of the shuffle is written and read row by row.
"""

from __future__ import annotations

from typing import Final, TypeVar

import numpy as np
import numpy.typing as npt

from queryable_state.wire.keys.key_groups import MAX_MAX_PARALLELISM

GROUP_BITS: Final = MAX_MAX_PARALLELISM
"""The bits that hold the key group, all of them ones."""

_Number = TypeVar("_Number", int, npt.NDArray[np.int64])


def row_check(row_hash: _Number, key_group: _Number) -> _Number:
    """The check of a row, or of each row of a column."""
    return row_hash & ~GROUP_BITS | key_group


def key_group_of(check: _Number) -> _Number:
    """The key group in a check."""
    return check & GROUP_BITS
