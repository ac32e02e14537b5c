"""Key groups: ranges without gaps, and wire keys."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryable_state.wire.errors import CorruptDataError, InvalidRequestError, KeyTypeError
from queryable_state.wire.keys.key_groups import KeyGroups, key_group_range, subtask_of
from queryable_state.wire.schema.types import Types, type_info


@given(st.integers(1, 32767).flatmap(lambda m: st.tuples(st.just(m), st.integers(1, min(m, 64)))))
def test_the_ranges_of_the_subtasks_cover_every_key_group_once(shape: tuple[int, int]) -> None:
    max_parallelism, parallelism = shape
    expected = 0
    for subtask in range(parallelism):
        first, last = key_group_range(subtask, parallelism, max_parallelism)
        assert first == expected
        assert subtask_of(first, parallelism, max_parallelism) == subtask
        assert subtask_of(last, parallelism, max_parallelism) == subtask
        expected = last + 1
    assert expected == max_parallelism


def test_impossible_numbers_are_refused() -> None:
    for max_parallelism in (0, -1, 32768):
        with pytest.raises(InvalidRequestError, match="1 to 32767"):
            KeyGroups(Types.STRING(), max_parallelism)
    for subtask, parallelism in ((0, 0), (0, 129), (2, 2), (-1, 2)):
        with pytest.raises(InvalidRequestError, match="subtask"):
            key_group_range(subtask, parallelism, 128)


def test_a_wire_key_is_the_key_group_and_the_encoded_key() -> None:
    groups = KeyGroups(Types.STRING(), 128)
    assert groups.of("a") == 76
    assert groups.wire_key("a") == b"\x00\x4ca\x00\x01"
    assert groups.wire_key("a\x00")[2:] == b"a\x00\xff\x00\x01"
    assert groups.decode_key(groups.wire_key("a\x00")) == "a\x00"


@pytest.mark.parametrize("max_parallelism", [1, 100, 128, 32767])
@given(st.lists(st.text()))
def test_many_wire_keys_are_those_of_each(max_parallelism: int, texts: list[str]) -> None:
    groups = KeyGroups(Types.STRING(), max_parallelism)
    assert groups.wire_keys(texts) == [groups.wire_key(text) for text in texts]


def test_many_wire_keys_of_any_type_are_those_of_each() -> None:
    groups = KeyGroups(type_info("a int, b string"), 128)
    assert groups.wire_keys([(1, "x"), (2, "")]) == [
        groups.wire_key(k) for k in ((1, "x"), (2, ""))
    ]
    with pytest.raises(KeyTypeError):
        groups.wire_keys([(1, "x"), 7])


def test_keys_that_are_equal_are_in_one_group() -> None:
    doubles = KeyGroups(Types.DOUBLE(), 32767)
    assert doubles.wire_key(-0.0) == doubles.wire_key(0.0) == doubles.wire_key(0)
    rows = KeyGroups(type_info("a int, b string"), 32767)
    assert rows.wire_key((1, "x")) == rows.wire_key({"b": "x", "a": 1})


def test_a_key_of_another_type_is_refused() -> None:
    for value in (7, None, b"a", "\ud800"):
        with pytest.raises(KeyTypeError):
            KeyGroups(Types.STRING()).wire_key(value)
        with pytest.raises(KeyTypeError):
            KeyGroups(Types.STRING()).of(value)
        with pytest.raises(KeyTypeError):
            KeyGroups(Types.STRING()).wire_keys(["a", value])


def test_a_wire_key_too_short_or_too_long_is_corrupt() -> None:
    groups = KeyGroups(Types.LONG())
    for data in (b"", b"\x00", groups.wire_key(7)[:-1], groups.wire_key(7) + b"\x00"):
        with pytest.raises(CorruptDataError):
            groups.decode_key(data)


def test_key_groups_can_be_pickled() -> None:
    groups = pickle.loads(pickle.dumps(KeyGroups(Types.STRING(), 100)))
    assert groups.of("a") == KeyGroups(Types.STRING(), 100).of("a")
