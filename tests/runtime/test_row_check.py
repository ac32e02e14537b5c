"""The one number that each row carries for the operator's checks."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from queryable_state.streaming.runtime.columns.row_check import row_check
from queryable_state.streaming.runtime.states.key_table import key_group_of
from queryable_state.wire.keys.key_groups import MAX_MAX_PARALLELISM

longs = st.integers(min_value=-(1 << 63), max_value=(1 << 63) - 1)
groups = st.integers(min_value=0, max_value=MAX_MAX_PARALLELISM - 1)


@given(longs, groups)
def test_a_check_is_a_long_that_holds_the_key_group(row_hash: int, group: int) -> None:
    check = row_check(row_hash, group)

    assert -(1 << 63) <= check < 1 << 63
    assert key_group_of(check) == group


@given(longs, longs, groups)
def test_rows_of_other_hashes_have_other_checks(one: int, other: int, group: int) -> None:
    differ = one >> 15 != other >> 15

    assert (row_check(one, group) != row_check(other, group)) == differ


@given(st.lists(st.tuples(longs, groups), min_size=1))
def test_columns_have_the_checks_of_their_rows(rows: list[tuple[int, int]]) -> None:
    hashes, of_group = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))

    checks = row_check(hashes, of_group)

    assert checks.tolist() == [row_check(*row) for row in rows]
    assert key_group_of(checks).tolist() == of_group.tolist()
