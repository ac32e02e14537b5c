"""PyFlink's `TypeSerializer` for values of state, with the snapshots of Java Flink.

`Types.CUSTOM(serializer)`, or the serializer itself, is a type: its values are stored as the bytes
that the serializer writes. Servers never decode them; a client does if its caller passes the
serializer. The registration of the state keeps the serializer's snapshot for each schema version.
If the snapshot changes, tasks call `resolve_schema_compatibility` of the new snapshot before
anything is written:

- COMPATIBLE_AS_IS: the new serializer reads the old bytes.
- COMPATIBLE_AFTER_MIGRATION: the old snapshot's `restore_serializer()` reads them. A value is
  migrated when it is written the next time.
- INCOMPATIBLE: the batch is refused.
"""

from __future__ import annotations

import pickle
from abc import ABC, abstractmethod
from enum import Enum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from io import BytesIO

T = TypeVar("T")


class TypeSerializerSchemaCompatibility(Enum):
    """What a new serializer can do with bytes of an earlier one."""

    COMPATIBLE_AS_IS = "compatible as is"
    COMPATIBLE_AFTER_MIGRATION = "compatible after migration"
    INCOMPATIBLE = "incompatible"

    def is_compatible_as_is(self) -> bool:
        """True if the new serializer reads the old bytes."""
        return self is TypeSerializerSchemaCompatibility.COMPATIBLE_AS_IS

    def is_compatible_after_migration(self) -> bool:
        """True if the restored serializer reads the old bytes."""
        return self is TypeSerializerSchemaCompatibility.COMPATIBLE_AFTER_MIGRATION

    def is_incompatible(self) -> bool:
        """True if nothing reads the old bytes."""
        return self is TypeSerializerSchemaCompatibility.INCOMPATIBLE


class TypeSerializer(ABC, Generic[T]):
    """Writes and reads values of one type. Tasks have their own copies: it must be picklable."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, self.__class__) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash(str(self))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    @abstractmethod
    def serialize(self, element: T, stream: BytesIO) -> None:
        """Writes a value, which is not None."""

    @abstractmethod
    def deserialize(self, stream: BytesIO) -> T:
        """Reads a value up to the end of the stream."""

    def snapshot(self) -> TypeSerializerSnapshot[T]:
        """The snapshot that is stored with the state.

        The default is for serializers whose format never changes: a class of another name, or with
        attributes whose `repr` differs from before, is incompatible.
        """
        return SimpleTypeSerializerSnapshot(self)

    def name(self) -> str:
        """The serializer's name in its snapshot; a class that is renamed must keep its name."""
        return f"{type(self).__module__}.{type(self).__qualname__}"


class TypeSerializerSnapshot(ABC, Generic[T]):
    """The format of a serializer. The class must have a constructor without arguments."""

    def get_current_version(self) -> int:
        """The version of the format of `write_snapshot`."""
        return 1

    @abstractmethod
    def write_snapshot(self, stream: BytesIO) -> None:
        """Writes what `read_snapshot` needs; equal formats must write equal bytes."""

    @abstractmethod
    def read_snapshot(self, read_version: int, stream: BytesIO) -> None:
        """Reads a snapshot that this class wrote at a version."""

    @abstractmethod
    def restore_serializer(self) -> TypeSerializer[T]:
        """A serializer that reads the bytes of the snapshot's format."""

    @abstractmethod
    def resolve_schema_compatibility(
        self, old_serializer_snapshot: TypeSerializerSnapshot[T]
    ) -> TypeSerializerSchemaCompatibility:
        """What this snapshot's serializer can do with bytes of an earlier one."""


class SimpleTypeSerializerSnapshot(TypeSerializerSnapshot[T]):
    """The snapshot of a serializer without configuration."""

    def __init__(self, serializer: TypeSerializer[T] | None = None) -> None:
        self._serializer = serializer
        self._attributes = repr(sorted(vars(serializer).items())) if serializer is not None else ""

    def write_snapshot(self, stream: BytesIO) -> None:
        stream.write(self._attributes.encode())

    def read_snapshot(self, read_version: int, stream: BytesIO) -> None:
        self._attributes = stream.read().decode()

    def restore_serializer(self) -> TypeSerializer[T]:
        if self._serializer is None:
            raise TypeError("the snapshot of a serializer without configuration restores none")
        return self._serializer

    def resolve_schema_compatibility(
        self, old_serializer_snapshot: TypeSerializerSnapshot[T]
    ) -> TypeSerializerSchemaCompatibility:
        same = (
            isinstance(old_serializer_snapshot, SimpleTypeSerializerSnapshot)
            and old_serializer_snapshot._attributes == self._attributes
        )
        if same:
            return TypeSerializerSchemaCompatibility.COMPATIBLE_AS_IS
        return TypeSerializerSchemaCompatibility.INCOMPATIBLE


class PickleSerializer(TypeSerializer[Any]):
    """Pickles any object. Reading a value runs code that its pickle names: trust the job."""

    def serialize(self, element: Any, stream: BytesIO) -> None:
        pickle.dump(element, stream, protocol=5)

    def deserialize(self, stream: BytesIO) -> Any:
        return pickle.load(stream)  # noqa: S301 - who passes this serializer asks for it
