"""Parser of Spark's types: DDL strings, simpleStrings and PySpark's `DataType` objects."""

from __future__ import annotations

import re
from typing import Any

from queryable_state.wire.errors import InvalidRequestError
from queryable_state.wire.schema.type_model import MAX_DEPTH, Field, Kind, TypeInfo

_SIMPLE = {
    "boolean": Kind.BOOLEAN,
    "bool": Kind.BOOLEAN,
    "tinyint": Kind.BYTE,
    "byte": Kind.BYTE,
    "smallint": Kind.SHORT,
    "short": Kind.SHORT,
    "int": Kind.INT,
    "integer": Kind.INT,
    "bigint": Kind.LONG,
    "long": Kind.LONG,
    "float": Kind.FLOAT,
    "real": Kind.FLOAT,
    "double": Kind.DOUBLE,
    "string": Kind.STRING,
    "varchar": Kind.STRING,
    "char": Kind.STRING,
    "character": Kind.STRING,
    "binary": Kind.BINARY,
    "date": Kind.DATE,
    "timestamp": Kind.TIMESTAMP,
    "timestamp_ltz": Kind.TIMESTAMP,
    "timestamp_ntz": Kind.TIMESTAMP_NTZ,
    "pickled": Kind.PICKLED,
    "time": Kind.TIME,
    "instant": Kind.INSTANT,
    "big_int": Kind.BIG_INT,
}
_SIZED = ("varchar", "char", "character")
_TEXTS = ("string", *_SIZED)
_DECIMAL = ("decimal", "dec", "numeric")

# Types of more than one word, which must not be read as `name type`.
_CONTINUATIONS = {
    "string": ("collate",),
    "double": ("precision",),
    "interval": ("day", "hour", "minute", "month", "second", "year"),
}

_TOKEN = re.compile(
    r"\s*(?:(?P<word>\w+)|`(?P<quoted>(?:[^`]|``)*)`|'(?P<text>[^']*)'|(?P<mark>[<>(),:]))\s*"
)


def parse(text: str) -> TypeInfo:
    """Parses a DDL string: "bigint", "struct<a:int>", "a INT, b STRING"."""
    parser = _Parser(text)
    info = parser.fields(until="") if parser.looks_like_fields() else parser.type(1)
    parser.expect_end()
    return info


def from_data_type(data_type: Any) -> TypeInfo:
    """Converts a PySpark `DataType`, recognised by its attributes, without importing PySpark."""
    return _from_data_type(data_type, 1)


def _from_data_type(data_type: Any, depth: int) -> TypeInfo:
    simple_string = getattr(data_type, "simpleString", None)
    if simple_string is None or isinstance(data_type, type):
        raise InvalidRequestError(
            f"{data_type!r} is not a type: give Types.X(), a DDL string or a DataType instance"
        )
    if depth > MAX_DEPTH:
        raise InvalidRequestError(f"a type nests more than {MAX_DEPTH} levels deep")
    if hasattr(data_type, "fields"):
        return TypeInfo(
            Kind.ROW,
            fields=tuple(
                Field(f.name, _from_data_type(f.dataType, depth + 1)) for f in data_type.fields
            ),
        )
    if hasattr(data_type, "elementType"):
        return TypeInfo(Kind.LIST, element=_from_data_type(data_type.elementType, depth + 1))
    if hasattr(data_type, "keyType"):
        return TypeInfo(
            Kind.MAP,
            key=_from_data_type(data_type.keyType, depth + 1),
            element=_from_data_type(data_type.valueType, depth + 1),
        )
    return parse(simple_string())


class _Parser:
    """Recursive descent over the tokens of one DDL string."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._tokens: list[tuple[str, str]] = []
        self._at = 0
        position = 0
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                raise self._error(f"unexpected {text[position]!r}")
            kind = str(found.lastgroup)
            token = found[kind]
            self._tokens.append((kind, token.replace("``", "`") if kind == "quoted" else token))
            position = found.end()

    def looks_like_fields(self) -> bool:
        """True if the text starts as `name type` or `name: type` and not as a type."""
        if len(self._tokens) < 2 or self._tokens[0][0] not in ("word", "quoted"):
            return False
        (first_kind, first), (kind, second) = self._tokens[:2]
        if second == ":" or first_kind == "quoted":
            return True
        if kind != "word":
            return False
        return second.lower() not in _CONTINUATIONS.get(first.lower(), ())

    def fields(self, until: str, depth: int = 1) -> TypeInfo:
        """Parses the fields of a struct up to its closing mark, which it does not consume."""
        fields: list[Field] = []
        while self._peek() != ("mark", until):
            kind, name = self._next()
            if kind not in ("word", "quoted"):
                raise self._error(f"expected a field name, found {name!r}")
            self._skip(":")
            info = self.type(depth + 1)
            self._field_attributes()
            fields.append(Field(name, info))
            if not self._skip(","):
                break
        return TypeInfo(Kind.ROW, fields=tuple(fields))

    def _field_attributes(self) -> None:
        if self._peek()[1].lower() == "not":
            self._next()
            self._expect_word("null")
        if self._peek()[1].lower() == "comment":
            self._next()
            if self._next()[0] != "text":
                raise self._error("expected 'text' after COMMENT")

    def type(self, depth: int) -> TypeInfo:
        """Parses the next type."""
        if depth > MAX_DEPTH:
            raise self._error(f"nested more than {MAX_DEPTH} levels deep")
        kind, word = self._next()
        name = word.lower()
        if kind != "word":
            raise self._error(f"expected a type, found {word!r}")
        if name in _SIMPLE:
            return self._simple(name)
        if name in _DECIMAL:
            digits = self._numbers() or [10, 0]
            if len(digits) > 2:
                raise self._error("a decimal has a precision and a scale")
            return TypeInfo(Kind.DECIMAL, precision=digits[0], scale=([*digits, 0])[1])
        if name in ("array", "list"):
            self._expect("<")
            element = self.type(depth + 1)
            self._expect(">")
            return TypeInfo(Kind.LIST, element=element)
        if name == "map":
            self._expect("<")
            key = self.type(depth + 1)
            self._expect(",")
            value = self.type(depth + 1)
            self._expect(">")
            return TypeInfo(Kind.MAP, key=key, element=value)
        if name in ("struct", "row"):
            self._expect("<")
            row = self.fields(">", depth)
            self._expect(">")
            return row
        if name == "tuple":
            return self._tuple(depth)
        raise self._error(f"{word!r} is not a type that keys or values can have")

    def _simple(self, name: str) -> TypeInfo:
        if name in (*_SIZED, "time"):
            self._numbers()
        if name == "double" and self._peek()[1].lower() == "precision":
            self._next()
        if name in _TEXTS and self._peek()[1].lower() == "collate":
            self._next()
            collation = self._next()[1]
            if collation.upper() != "UTF8_BINARY":
                raise self._error(
                    f"collation {collation}: strings that are equal under it would be different "
                    "keys; use UTF8_BINARY"
                )
        return TypeInfo(_SIMPLE[name])

    def _tuple(self, depth: int) -> TypeInfo:
        self._expect("<")
        fields: list[Field] = []
        while self._peek() != ("mark", ">"):
            fields.append(Field("", self.type(depth + 1)))
            if not self._skip(","):
                break
        self._expect(">")
        return TypeInfo(Kind.TUPLE, fields=tuple(fields))

    def _numbers(self) -> list[int]:
        numbers: list[int] = []
        if self._skip("("):
            while not numbers or self._skip(","):
                word = self._next()[1]
                if not (word.isascii() and word.isdigit() and len(word) < 10):
                    raise self._error(f"expected a number, found {word!r}")
                numbers.append(int(word))
            self._expect(")")
        return numbers

    def expect_end(self) -> None:
        """Raises for text after the type."""
        if self._at < len(self._tokens):
            raise self._error(f"unexpected {self._peek()[1]!r} after the type")

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("end", "")

    def _next(self) -> tuple[str, str]:
        token = self._peek()
        if token[0] == "end":
            raise self._error("it ends too early")
        self._at += 1
        return token

    def _skip(self, mark: str) -> bool:
        if self._peek() == ("mark", mark):
            self._at += 1
            return True
        return False

    def _expect(self, mark: str) -> None:
        if not self._skip(mark):
            raise self._error(f"expected {mark!r}, found {self._peek()[1] or 'the end'!r}")

    def _expect_word(self, word: str) -> None:
        if self._next()[1].lower() != word:
            raise self._error(f"expected {word.upper()}")

    def _error(self, what: str) -> InvalidRequestError:
        shown = self._text if len(self._text) <= 200 else self._text[:200] + "..."
        return InvalidRequestError(f"type {shown!r}: {what}")
