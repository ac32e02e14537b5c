"""A job's own serializers as types: bytes for all others, and formats that may change."""

from __future__ import annotations

import json
import pickle
from typing import TYPE_CHECKING, Any

import pytest

from queryable_state.wire.errors import (
    InvalidRequestError,
    JobError,
    KeyTypeError,
    SerializationError,
)
from queryable_state.wire.json_text import to_jsonable
from queryable_state.wire.keys.key_codec import KeyCodec
from queryable_state.wire.schema.type_serializer import (
    PickleSerializer,
    TypeSerializer,
    TypeSerializerSchemaCompatibility,
    TypeSerializerSnapshot,
)
from queryable_state.wire.schema.types import TypeInfo, Types, type_info
from queryable_state.wire.values.serialized import SerializedValue
from queryable_state.wire.values.value_codec import ValueCodec

if TYPE_CHECKING:
    from io import BytesIO

Compatibility = TypeSerializerSchemaCompatibility


class Text(TypeSerializer[str]):
    """Text in an encoding, which is its snapshot's configuration."""

    def __init__(self, encoding: str = "utf-8") -> None:
        self.encoding = encoding

    def name(self) -> str:
        return "text"

    def serialize(self, element: str, stream: BytesIO) -> None:
        stream.write(element.encode(self.encoding))

    def deserialize(self, stream: BytesIO) -> str:
        return stream.read().decode(self.encoding)

    def snapshot(self) -> TextSnapshot:
        return TextSnapshot(self.encoding)


class TextSnapshot(TypeSerializerSnapshot[str]):
    """ASCII is read as UTF-8, and any known encoding by its own serializer."""

    def __init__(self, encoding: str = "") -> None:
        self.encoding = encoding

    def write_snapshot(self, stream: BytesIO) -> None:
        stream.write(self.encoding.encode())

    def read_snapshot(self, read_version: int, stream: BytesIO) -> None:
        assert read_version == 1
        self.encoding = stream.read().decode()

    def restore_serializer(self) -> Text:
        return Text(self.encoding)

    def resolve_schema_compatibility(
        self, old_serializer_snapshot: TypeSerializerSnapshot[str]
    ) -> Compatibility:
        assert isinstance(old_serializer_snapshot, TextSnapshot)
        old = old_serializer_snapshot.encoding
        if (old, self.encoding) in (("ascii", "utf-8"), (self.encoding, old)):
            return Compatibility.COMPATIBLE_AS_IS
        if old == "latin-1":
            return Compatibility.COMPATIBLE_AFTER_MIGRATION
        return Compatibility.INCOMPATIBLE


class Broken(TypeSerializer[Any]):
    def serialize(self, element: Any, stream: BytesIO) -> None:
        raise KeyError(element)

    def deserialize(self, stream: BytesIO) -> Any:
        return stream.read(1)


class WithoutSnapshot(Broken):
    def snapshot(self) -> Any:
        return None


def test_a_serializer_is_a_type() -> None:
    info = type_info(Text())
    assert info == Types.CUSTOM(Text()) != Types.CUSTOM(Text("latin-1"))
    assert info.simple_string() == "custom<text>"
    assert TypeInfo.from_proto(info.to_proto()) == info
    assert TypeInfo.from_proto(info.to_proto()).serializer is None
    assert pickle.loads(pickle.dumps(info)).serializer == Text()
    with pytest.raises(InvalidRequestError, match="must return a TypeSerializerSnapshot"):
        Types.CUSTOM(WithoutSnapshot())


@pytest.mark.parametrize(
    ("info", "value", "seen"),
    [
        (Types.CUSTOM(Text("utf-16")), "é", SerializedValue("é".encode("utf-16"))),
        (Types.LIST(Text()), ["é", None, ""], ["é".encode(), None, b""]),
        (Types.MAP(str, Text()), {"a": "é"}, {"a": "é".encode()}),
        (Types.TUPLE([Text(), int]), ("é", 1), ("é".encode(), 1)),
        (Types.CUSTOM(PickleSerializer()), {1: 2}, pickle.dumps({1: 2}, protocol=5)),
    ],
)
def test_values_are_bytes_for_readers_without_the_serializer(
    info: TypeInfo, value: Any, seen: Any
) -> None:
    codec = ValueCodec.of(info)
    data = codec.encode(value)
    assert codec.decode(data) == value
    elsewhere = ValueCodec.of(TypeInfo.from_proto(info.to_proto()))
    assert elsewhere.decode(data) == seen
    assert elsewhere.encode(elsewhere.decode(data)) == data


def test_json_shows_the_bytes() -> None:
    info = TypeInfo.from_proto(Types.LIST(Text()).to_proto())
    assert json.dumps(to_jsonable([SerializedValue(b"a")], info)) == '[{"$serialized": "YQ=="}]'


def test_a_serialized_value_is_no_key() -> None:
    with pytest.raises(KeyTypeError, match="custom<text>"):
        KeyCodec(Types.CUSTOM(Text()))
    with pytest.raises(InvalidRequestError, match="keys of a map cannot hold custom<text>"):
        ValueCodec.of(Types.MAP(Text(), int))


def test_a_serializer_that_fails_or_leaves_bytes_is_named() -> None:
    codec = ValueCodec.of(Types.CUSTOM(Broken()))
    with pytest.raises(SerializationError, match=r"value cannot be serialized by Broken\(\)"):
        codec.encode(7)
    with pytest.raises(SerializationError, match="left 2 of 3 bytes"):
        codec.decode(codec.header + b"abc")


def read_by(new: TypeSerializer[Any], old: TypeSerializer[Any], value: Any) -> Any:
    """A value that the old serializer wrote, read by a program that declares the new one."""
    before, now = Types.LIST(old), Types.LIST(new)
    data = ValueCodec({1: before}, 1).encode([value])
    stored = TypeInfo.from_proto(before.to_proto())
    (found,) = ValueCodec({1: stored, 2: now}, 2).decode(data)
    return found


def test_a_compatible_serializer_reads_old_values() -> None:
    assert read_by(Text("utf-8"), Text("ascii"), "a") == "a"


def test_the_restored_serializer_reads_values_before_their_migration() -> None:
    assert read_by(Text("utf-8"), Text("latin-1"), "é") == "é"


def test_an_incompatible_serializer_reads_nothing() -> None:
    with pytest.raises(JobError, match="serializer text is incompatible"):
        read_by(Text("ascii"), Text("utf-8"), "é")
    with pytest.raises(JobError, match="written by serializer text"):
        read_by(PickleSerializer(), Text(), "é")


def test_a_serializer_without_its_own_snapshot_is_compatible_with_itself_only() -> None:
    snapshot = PickleSerializer().snapshot()
    same = snapshot.resolve_schema_compatibility(PickleSerializer().snapshot())
    assert same.is_compatible_as_is()
    changed = Broken()
    changed.digits = 3  # type: ignore[attr-defined]
    other = changed.snapshot().resolve_schema_compatibility(Broken().snapshot())
    assert other.is_incompatible()
