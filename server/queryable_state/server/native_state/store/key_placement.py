"""Check that the raw records of a state partition belong to it.

Spark puts a key into the partition that the hash of its grouping columns names. Files whose keys
hash to another partition were exchanged with those of another partition, or copied over them.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from queryable_state.v1.registration_pb2 import SPARK_HASH
from queryable_state.wire.errors import CorruptDataError, QueryableStateError
from queryable_state.wire.keys.key_groups import KeyGroups

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from rocksdict import Rdict

    from queryable_state.server.native_state.operators.state_layout import (
        KeyedTable,
        StateLayout,
    )

_FILE_KEYS = 256
"""Keys of a file of records that are checked, evenly spread; smaller files are checked whole."""

_CHANGED_KEYS = 4
"""The same for the changes of one batch: every key costs its latency some 10 µs."""

_FIRST_KEYS = 32
_SPREAD_KEYS = 32
_COMPARED_BYTES = 8


class KeyPlaces:
    """The partitions of raw keys by the hash of their grouping columns. Immutable."""

    def __init__(self, layouts: Iterable[StateLayout]) -> None:
        """`layouts`: of states whose keys are placed by their hash; raw keys of no state, such as
        those of indexes, have no known partition."""
        self._tables: dict[int, list[tuple[KeyedTable, KeyGroups]]] = {}
        for layout in layouts:
            definition = layout.definition
            if definition.partitions == 1:
                continue
            groups = KeyGroups(definition.key_type, definition.partitions, SPARK_HASH)
            for table in layout.tables:
                self._tables.setdefault(table.source, []).append((table, groups))

    def tables(self, source: int) -> Iterator[KeyedTable]:
        """The tables of a source whose keys have a known partition."""
        return (table for table, _ in self._tables.get(source, ()))

    def partition_of(self, source: int, raw_key: bytes) -> int | None:
        """The partition of a raw key; None if it is unknown."""
        for table, groups in self._tables.get(source, ()):
            if raw_key.startswith(table.family):
                try:
                    return groups.of(groups.decode_key(table.wire_key(0, raw_key)))
                except (QueryableStateError, ValueError, OverflowError):
                    # A damaged key, which the reads of it report.
                    return None
        return None


class PlacementCheck:
    """Raises `CorruptDataError` for records that belong to another partition.

    A whole file is of one partition, so a sample of its keys tells. Blocking; usable from every
    thread.
    """

    def __init__(self, places: KeyPlaces, partition: int) -> None:
        self._places = places
        self._partition = partition

    def check_records(self, source: int, path: str, keys: Collection[bytes]) -> None:
        """Checks the keys of a file of records: all of up to 256, else as many, evenly spread."""
        self._check(source, path, _spread(keys, _FILE_KEYS))

    def check_changes(self, source: int, path: str, *keys: Collection[bytes]) -> None:
        """Checks the keys of the changes of a batch: 4 of each collection, evenly spread."""
        for each in keys:
            self._check(source, path, _spread(each, _CHANGED_KEYS))

    def check_database(self, source: int, path: str, database: Rdict) -> None:
        """Checks of each table the first 32 keys, and 32 spread between them and the last one."""
        for table in self._places.tables(source):
            self._check(source, path, _sampled(database, table.family, table.end))

    def _check(self, source: int, path: str, keys: Iterable[bytes]) -> None:
        own, partition_of = self._partition, self._places.partition_of
        for key in keys:
            partition = partition_of(source, key)
            if partition is not None and partition != own:
                raise CorruptDataError(
                    f"{path} is in the folder of partition {own}, but its keys belong to partition "
                    f"{partition}: files of the two partitions were exchanged or copied over each "
                    f"other; put the files of partition {own} back"
                )


def _spread(keys: Collection[bytes], most: int) -> Iterable[bytes]:
    return islice(keys, 0, None, max(1, -(-len(keys) // most)))


def _sampled(database: Rdict, begin: bytes, end: bytes | None) -> Iterator[bytes]:
    """The first keys of a range, and others at even distances behind them."""
    iterator = database.iter()
    iterator.seek(begin)
    key = begin
    for _ in range(_FIRST_KEYS):
        if not iterator.valid():
            return
        key = iterator.key()
        if end is not None and key >= end:
            return
        yield key
        iterator.next()
    if end is None:
        iterator.seek_to_last()
    else:
        iterator.seek_for_prev(end)
    if not iterator.valid():
        return
    last = iterator.key()
    for start in _between(key, last):
        iterator.seek(start)
        if not iterator.valid():
            return
        found = iterator.key()
        if end is None or found < end:
            yield found
    yield last if end is None or last < end else key


def _between(first: bytes, last: bytes) -> Sequence[bytes]:
    """Keys at even distances between two keys, by the first bytes in which these differ."""
    same = next((i for i, (a, b) in enumerate(zip(first, last, strict=False)) if a != b), None)
    if same is None:
        return ()
    low, high = (
        int.from_bytes(each[same : same + _COMPARED_BYTES].ljust(_COMPARED_BYTES, b"\0"))
        for each in (first, last)
    )
    step = (high - low) // _SPREAD_KEYS
    return [
        first[:same] + (low + step * number).to_bytes(_COMPARED_BYTES)
        for number in range(1, _SPREAD_KEYS)
    ]
