"""Interface of state layouts: records of one queryable state, made of Spark's raw records.

A **source** is one Spark state store of a state partition; sources count from 0 in the order of the
stores' names. Its **raw records** are the keys and values as Spark's RocksDB provider stores them,
with version bytes, key encoding and column family prefix. Records of the HDFS-backed provider are
brought into this form when they are loaded.

A **record** of a state is what queries read: a store key (`wire.keys.store_keys`: key group, key,
namespace, element) and an encoded value (`wire.values.value_codec`, schema version 1). Its key
group is the state partition. The columns of a key may be null.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from queryable_state.server.storage.overlay import Overlay
    from queryable_state.v1.registration_pb2 import StateKind
    from queryable_state.wire.schema.type_model import TypeInfo


class RawReads(Protocol):
    """The raw records of one state partition, as of one batch."""

    @property
    def batch_time_ms(self) -> int:
        """Timestamp of the batch, which decides what has expired; milliseconds since the epoch."""

    def get(self, source: int, key: bytes) -> bytes | None:
        """The raw value of a raw key; None if it has none."""

    def prefix(self, source: int, prefix: bytes, limit: int = 0) -> list[tuple[bytes, bytes]]:
        """Raw records whose key starts with `prefix`, in raw order, at most `limit` (0: all)."""


class RawView(RawReads, Protocol):
    """Raw records of a version that stays unchanged while they are read."""

    def scan(self, source: int, start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes]]:
        """Raw records with start <= key < end (None: to the last), in raw order."""


class KeyedTable(Protocol):
    """A column family of a source, whose raw keys have the keys of a state."""

    source: int
    family: bytes
    """The first bytes of all its raw keys."""
    end: bytes | None
    """The end of its raw keys; None: the end of the source."""

    def wire_key(self, partition: int, raw_key: bytes) -> bytes:
        """The wire key of a raw key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDefinition:
    """Definition of a queryable state: all that its registration needs, and texts for people."""

    name: str
    """Name within its operator: `left`, a state variable's name, `timers`; empty for the only
    state of an operator."""
    queryable_name: str = ""
    """Name within the query; set by `operator_states.states_of`."""
    kind: StateKind.ValueType
    """VALUE, LIST, MAP or TIMER."""
    key_type: TypeInfo
    """One grouping column: its type; several: a ROW of them; none: INT, whose only key is 0."""
    value_type: TypeInfo | None
    """The value, an element of a LIST or the value of a MAP's entry; None for a TIMER."""
    map_key_type: TypeInfo | None = None
    """The keys of a MAP's entries; None for other kinds."""
    namespace_type: TypeInfo | None = None
    """`MICROS_WINDOW_TYPE` for session windows, else None."""
    partitions: int
    """State partitions, which are its key groups: `max_parallelism` of the registration."""
    has_ttl: bool = False
    """True if values expire. Their header has the time of their expiry as its timestamp."""
    operator_id: int
    """Spark's number of the operator within the query."""
    operator: str
    """The operator in one word, which is the name of its only state: `aggregation`, `join`."""
    spark_name: str
    """Spark's name of the operator in its metadata: `stateStoreSave`."""
    format: str
    """The version of the operator's stored form in words: `state format 2`."""
    description: str
    """One sentence on what the state holds."""


class KeyRange(NamedTuple):
    """Store keys from `start` on and before `end`; both may be of other partitions."""

    start: bytes
    end: bytes | None
    """None: to the last key."""


class StateLayout(ABC):
    """Translation between the records of one state and the raw records of one partition.

    Immutable; usable from every thread. `record_key`, `prefix` and `after` begin with the key
    group, 2 bytes. All methods raise `CorruptDataError` for raw bytes that Spark does not write.
    """

    definition: StateDefinition
    sources: tuple[int, ...]
    """The sources that it reads."""
    tables: Sequence[KeyedTable]
    """The raw tables whose raw keys have the keys of the state."""

    @abstractmethod
    def get(self, raw: RawReads, record_key: bytes) -> bytes | None:
        """The value of a whole store key; None if it has none."""

    @abstractmethod
    def prefix(self, raw: RawReads, prefix: bytes, limit: int = 0) -> list[tuple[bytes, bytes]]:
        """The records of a whole wire key, or of a whole wire key and namespace.

        In the order of their store keys, at most `limit` (0: all); any of them, if there are more.
        """

    @abstractmethod
    def scan(
        self, raw: RawView, partition: int, after: bytes = b"", keys: KeyRange | None = None
    ) -> Iterator[tuple[bytes, bytes]]:
        """The records of all keys behind the wire key `after` (b"": of all keys).

        Keys that are not in `keys` may be left out, or not.

        `after` with a namespace: the rest of that key's namespaces come first. Keys come in the
        order of their raw keys, which is the same in every version. All records of a key come
        together, in the order of their store keys.
        """

    @abstractmethod
    def changed_keys(self, changes: Overlay, partition: int) -> Iterator[bytes]:
        """The wire keys whose records the raw changes of a batch may have changed.

        A key may come more than once. `changes.states` are the changes by source.
        """
