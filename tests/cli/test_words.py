"""Words of a command line as keys."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queryable_state.cli.arguments import key_of, keys_of_lines, prefix_of
from queryable_state.client import InvalidRequestError, KeyTypeError, Types
from queryable_state.wire.keys.key_codec import KeyCodec

PAIR = Types.TUPLE([Types.STRING(), Types.INT()])
NAMED = Types.ROW_NAMED(["carrier", "flight"], [Types.STRING(), Types.INT()])


@given(st.text())
def test_a_bare_word_is_a_string_where_keys_are(word: str) -> None:
    """Unless it is in quotes, and then it is JSON."""
    if len(word) > 1 and word[0] == word[-1] == '"':
        return
    assert key_of(word, Types.STRING()) == word


@given(st.text())
def test_every_string_can_be_written_as_json(key: str) -> None:
    assert key_of(json.dumps(key), Types.STRING()) == key


@pytest.mark.parametrize("word", ["7", "null", "true", "[1]", "", '"', 'a"b"'])
def test_words_that_would_be_json_of_another_type_are_strings(word: str) -> None:
    assert key_of(word, Types.STRING()) == word


def test_words_of_other_types() -> None:
    assert key_of("-7", Types.LONG()) == -7
    assert key_of("true", Types.BOOLEAN()) is True
    assert key_of("c2Vuc29y", Types.BINARY()) == b"sensor"
    assert key_of("2013-01-31", Types.SQL_DATE()) == date(2013, 1, 31)
    instant = datetime(2013, 1, 31, 10, tzinfo=UTC)
    assert key_of("2013-01-31T10:00:00Z", Types.TIMESTAMP_LTZ()) == instant
    assert key_of('"2013-01-31T10:00:00Z"', Types.INSTANT()) == instant
    assert key_of('["AA", 3]', PAIR) == ("AA", 3)
    assert key_of('{"carrier": "AA", "flight": 3}', NAMED) == ("AA", 3)


@pytest.mark.parametrize(
    ("word", "key_type"),
    [("seven", Types.LONG()), ("", Types.LONG()), ("AA", PAIR), ('"a" "b"', Types.STRING())],
)
def test_words_that_are_no_json_are_refused_with_an_example(word: str, key_type: object) -> None:
    with pytest.raises(InvalidRequestError, match="written as in"):
        key_of(word, key_type)  # type: ignore[arg-type]


def test_prefixes_are_the_beginning_of_a_string_or_the_first_fields() -> None:
    assert prefix_of("sens", Types.STRING()) == "sens"
    assert prefix_of('["AA"]', PAIR) == ("AA",)
    assert prefix_of('["AA"]', NAMED) == ("AA",)
    assert prefix_of('["AA", 3]', PAIR) == ("AA", 3)
    assert prefix_of("[]", PAIR) == ()
    for word in ("AA", '["AA", 3, 4]', "7"):
        with pytest.raises((KeyTypeError, InvalidRequestError)):
            prefix_of(word, PAIR)


@given(st.text(alphabet=st.characters(codec="utf-8")), st.integers(-(1 << 31), (1 << 31) - 1))
def test_keys_that_begin_with_a_word_do_so_in_bytes(name: str, number: int) -> None:
    """What a scan asks for covers the key the word was made of."""
    key = key_of(json.dumps([name, number]), PAIR)
    assert key == (name, number)
    first = prefix_of(json.dumps([name]), PAIR)
    assert KeyCodec(PAIR).encode(key).startswith(KeyCodec(Types.TUPLE(["string"])).encode(first))


def test_a_file_has_a_key_a_line() -> None:
    assert keys_of_lines(["a b\n", "\n", " \r\n", "7"], Types.STRING()) == ["a b", " ", "7"]
