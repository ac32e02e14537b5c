"""Rows by key that a task reports."""

from __future__ import annotations

import numpy as np

from queryable_state.streaming.runtime.states.task_states import MOST_KEYS, KeyRowCounter


def _counted(*chunks: list[int]) -> KeyRowCounter:
    counter, keys = KeyRowCounter(), 0
    for chunk in chunks:
        keys = max(keys, *(slot + 1 for slot in chunk))
        counter.add(np.array(chunk, dtype=np.int64), keys)
    return counter


def test_rows_are_counted_over_all_chunks() -> None:
    rows = _counted([0, 1, 1], [1, 2, 0, 1]).most([b"a", b"b", b"c"])
    assert list(zip(rows.keys, rows.rows, strict=True)) == [(b"b", 4), (b"a", 2), (b"c", 1)]
    assert (rows.total, rows.most_omitted) == (7, 0)


def test_one_hot_key_among_100k_is_reported_alone() -> None:
    keys = [b"%d" % number for number in range(100_000)]
    rows = _counted([*range(100_000)], [77_000] * 25_000).most(keys)
    assert list(zip(rows.keys, rows.rows, strict=True)) == [(b"77000", 25_001)]
    assert (rows.total, rows.most_omitted) == (125_000, 1)


def test_the_keys_with_the_most_rows_are_reported() -> None:
    counted = [slot for slot in range(200) for _ in range(slot + 1)]
    rows = _counted(counted).most([b"%d" % number for number in range(200)])
    assert list(rows.rows) == list(range(200, 200 - MOST_KEYS, -1))
    assert rows.most_omitted == 200 - MOST_KEYS


def test_a_task_without_rows_reports_no_key() -> None:
    assert not KeyRowCounter().most([]).keys
