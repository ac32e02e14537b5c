"""`Row` as in PyFlink, and the rows of streams and states, which are rows, too."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from queryable_state.wire.rows import make_row
from queryable_state.wire.schema.row import Row, RowKind


def test_fields_are_read_by_name_and_by_position() -> None:
    row = Row(name="Alice", age=11)
    assert (row.name, row["name"], row[0], row[:1]) == ("Alice", "Alice", 11, [11])
    assert repr(row) == "Row(age=11, name='Alice')"
    assert list(row) == [11, "Alice"]
    assert len(row) == 2


def test_a_row_of_names_makes_rows() -> None:
    person = Row("name", "age")
    assert repr(person) == "<Row('name', 'age')>"
    assert person("Alice", 11).as_dict() == {"name": "Alice", "age": 11}
    with pytest.raises(ValueError, match="3 values were given"):
        person(1, 2, 3)


def test_in_searches_the_values() -> None:
    assert 11 in Row(age=11)
    assert "age" not in Row(age=11)


def test_rows_become_dictionaries_with_the_rows_in_them_on_request() -> None:
    row = Row(key=1, value=Row(name="a"), rows=[make_row(["x"], [2])])
    assert row.as_dict()["value"] == Row(name="a")
    assert row.as_dict(recursive=True) == {"key": 1, "value": {"name": "a"}, "rows": [{"x": 2}]}
    with pytest.raises(TypeError, match="set_field_names"):
        Row(1).as_dict()


def test_a_row_can_be_changed() -> None:
    row = Row(1, 2)
    row[0] = 5
    row.set_field_names(["a", "b"])
    row["b"] = 6
    row.set_row_kind(RowKind.DELETE)
    assert (row.a, row.b, row.get_row_kind()) == (5, 6, RowKind.DELETE)
    with pytest.raises(AttributeError):
        row.a = 7  # type: ignore[attr-defined]  # known at run time only


@pytest.mark.parametrize("row", [Row(a=1), make_row(["a"], [1])])
def test_an_unknown_field_is_a_key_error_and_pyflinks_value_error(row: Row) -> None:
    with pytest.raises(KeyError):
        row["b"]
    with pytest.raises(ValueError, match="b"):
        row["b"]
    with pytest.raises(AttributeError):
        row.b  # noqa: B018 - it raises


@pytest.mark.parametrize("row", [Row(a=1, b=2), make_row(["a", "b"], [1, 2])])
def test_several_fields_are_read_in_the_order_of_their_names(row: Row) -> None:
    assert row.get_fields_by_names(["b", "a", "b"]) == [2, 1, 2]
    with pytest.raises(KeyError, match="'c'"):
        row.get_fields_by_names(["a", "c"])


def test_a_row_without_names_has_all_its_values_under_any_names() -> None:
    assert Row(1, 2).get_fields_by_names(["a"]) == [1, 2]


def test_a_row_may_be_made_with_the_change_that_it_describes() -> None:
    row = Row.of_kind(RowKind.UPDATE_BEFORE, a=1)
    assert (row.a, row.get_row_kind()) == (1, RowKind.UPDATE_BEFORE)
    assert [str(kind) for kind in RowKind] == ["+I", "-U", "+U", "-D"]


def test_rows_are_equal_if_names_kind_and_values_are() -> None:
    assert Row(1, 2) == Row(1, 2)
    assert Row(a=1) == Row(a=1)
    assert Row(a=1) != Row(b=1)
    assert Row(a=1) != Row(1)
    assert Row(1) != (1,)
    deleted = Row(a=1)
    deleted.set_row_kind(RowKind.DELETE)
    assert deleted != Row(a=1)
    assert hash(Row(a=1)) == hash((1,))


def test_a_row_survives_pickling_and_copying() -> None:
    row = Row(a=1, b=[2])
    row.set_row_kind(RowKind.UPDATE_AFTER)
    assert pickle.loads(pickle.dumps(row)) == copy.deepcopy(row) == row


def test_an_element_is_a_row_that_cannot_be_changed() -> None:
    element: Any = make_row(["a", "b"], [1, "x"])
    assert isinstance(element, Row)
    assert element == Row(a=1, b="x") == element
    assert Row(a=1, b="y") != element
    assert element == (1, "x")
    assert element.as_dict() == {"a": 1, "b": "x"}
    assert element.get_row_kind() == RowKind.INSERT
    element.set_field_names(["a", "b"])
    element.set_row_kind(RowKind.INSERT)
    with pytest.raises(TypeError, match="emit a new row"):
        element.set_field_names(["c", "d"])
    with pytest.raises(TypeError, match="emit a new row"):
        element.set_row_kind(RowKind.DELETE)
    with pytest.raises(TypeError, match="emit a new row"):
        element["a"] = 2
