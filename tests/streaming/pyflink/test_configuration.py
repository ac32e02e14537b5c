"""Configuration: PyFlink's getters, setters, copies and texts."""

from __future__ import annotations

import copy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryable_state.streaming import Configuration
from queryable_state.wire.errors import InvalidRequestError


def test_a_new_configuration_is_empty_and_a_copy_is_independent() -> None:
    first = Configuration()
    assert first.to_dict() == {}
    first.set_string("a", "1")
    second = Configuration(first)
    first.set_string("a", "2")
    assert second.to_dict() == {"a": "1"}


def test_each_type_is_returned_as_it_was_set() -> None:
    configuration = (
        Configuration()
        .set_string("text", "x")
        .set_integer("number", 7)
        .set_boolean("truth", True)
        .set_float("fraction", 2.5)
        .set_bytearray("bytes", bytearray(b"\x01\x02"))
    )
    assert configuration.get_string("text", "") == "x"
    assert configuration.get_integer("number", 0) == 7
    assert configuration.get_boolean("truth", False) is True
    assert configuration.get_float("fraction", 0) == 2.5
    assert configuration.get_bytearray("bytes", bytearray()) == bytearray(b"\x01\x02")


def test_a_key_that_is_not_set_has_the_default() -> None:
    configuration = Configuration()
    assert configuration.get_string("k", "d") == "d"
    assert configuration.get_integer("k", 3) == 3
    assert configuration.get_boolean("k", True) is True
    assert configuration.get_float("k", 1) == 1.0
    assert configuration.get_bytearray("k", bytearray(b"d")) == bytearray(b"d")


def test_a_text_is_converted_to_the_type_that_a_getter_names() -> None:
    configuration = Configuration().set_string("n", "12").set_string("b", "TRUE")
    assert configuration.get_integer("n", 0) == 12
    assert configuration.get_float("n", 0) == 12.0
    assert configuration.get_boolean("b", False) is True
    assert configuration.set_integer("i", 4).get_string("i", "") == "4"


@pytest.mark.parametrize("getter", ["get_integer", "get_boolean", "get_float", "get_bytearray"])
def test_a_value_that_cannot_be_converted_is_named(getter: str) -> None:
    configuration = Configuration().set_string("the.key", "soon")
    with pytest.raises(InvalidRequestError, match=r"the\.key is 'soon'"):
        getattr(configuration, getter)("the.key", 0)


def test_an_empty_key_is_refused() -> None:
    with pytest.raises(InvalidRequestError, match="key of a configuration value is empty"):
        Configuration().set_string("", "x")


def test_keys_are_listed_found_and_removed_once() -> None:
    configuration = Configuration().set_string("a", "1").set_boolean("b", False)
    assert configuration.key_set() == {"a", "b"}
    assert configuration.contains_key("b")
    assert configuration.remove_config("b")
    assert not configuration.remove_config("b")
    assert not configuration.contains_key("b")


def test_another_configuration_is_added_with_a_prefix() -> None:
    other = Configuration().set_string("k", "v")
    configuration = Configuration().add_all(other).add_all(other, "p.")
    assert configuration.to_dict() == {"k": "v", "p.k": "v"}


def test_texts_are_flinks_and_a_dict_keeps_types() -> None:
    configuration = Configuration().set_integer("i", 1).set_float("f", 1.5).set_boolean("b", True)
    assert configuration.to_dict() == {"i": "1", "f": "1.5", "b": "true"}
    target = {"other": 0}
    configuration.add_all_to_dict(target)
    assert target == {"other": 0, "i": 1, "f": 1.5, "b": True}
    assert str(configuration) == "{i=1, f=1.5, b=true}"


def test_a_deep_copy_is_equal_until_one_changes() -> None:
    first = Configuration().set_string("k", "1")
    second = copy.deepcopy(first)
    assert first == second
    second.set_string("k", "2")
    assert first != second
    assert first != {"k": "1"}


@given(st.dictionaries(st.text(min_size=1), st.text() | st.integers() | st.booleans()))
def test_equal_pairs_in_any_order_are_equal_with_one_hash(pairs: dict[str, object]) -> None:
    first, second = Configuration(), Configuration()
    for key, value in pairs.items():
        first.set_string(key, str(value))
    for key, value in reversed(pairs.items()):
        second.set_string(key, str(value))
    assert first == second
    assert hash(first) == hash(second)
