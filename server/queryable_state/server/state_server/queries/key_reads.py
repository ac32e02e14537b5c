"""Reads of values and records by key: the hot path of queries."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from operator import concat
from typing import TYPE_CHECKING, Protocol, cast

from queryable_state.server.state_server.stores.record_cache import ABSENT
from queryable_state.server.state_server.stores.store_table import NOT_HERE
from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import (
    CorruptDataError,
    InvalidRequestError,
    LimitExceededError,
    PlacementError,
    QueryableStateError,
    Reason,
    RetryLaterError,
    StateLostError,
    UnknownStateError,
)
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE
from queryable_state.wire.values.value_codec import HAS_TIMESTAMP, is_stale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.config.limits import Limits
    from queryable_state.server.state_server.stores.record_cache import RecordCache
    from queryable_state.server.state_server.stores.store_table import StateRoute
    from queryable_state.server.storage.store import StateStore

MANY_RECORDS = frozenset({registration_pb2.LIST, registration_pb2.MAP, registration_pb2.TIMER})
"""The kinds of keyed state that may have several records under one key and namespace."""

PointReader = Callable[[bytes], bytes | None]
"""`reader(store_key)` returns the value, or None."""


PrefixReader = Callable[[int, bytes, bool, int], list[tuple[bytes, bytes]]]
"""`reader(state_id, prefix, uncommitted, limit)` returns the first records with a key prefix."""


ElementsReader = Callable[[int, bool], list[bytes]]
"""`reader(state_id, uncommitted)` returns the elements of an operator state."""


class LongReadError(Exception):
    """The read is too long for the event loop: the background thread has to do it."""


class RecordCount:
    """Number of records a query may read before it counts as long; None: no limit."""

    __slots__ = ("_left",)

    def __init__(self, most: int | None) -> None:
        self._left = most

    def next_limit(self, limit: int) -> int:
        """Returns how many records to read of the next key: one more than the limit leaves."""
        return limit if self._left is None else min(limit, self._left + 1)

    def count(self, records: int) -> None:
        """Counts records; raises `LongReadError` above the limit."""
        if self._left is not None:
            self._left -= records
            if self._left < 0:
                raise LongReadError


class Readers(Protocol):
    """The readers of one version of a state.

    Lists are indexed by slot. An entry is None if the store may not be read; the last one
    belongs to `NOT_HERE`.
    """

    @property
    def records(self) -> RecordCache | None:
        """Returns the cache of exactly these records, which reads fill; None: no caching."""
        ...

    def points(self) -> list[PointReader | None]:
        """Returns the readers of single records."""
        ...

    def prefixes(self) -> list[PrefixReader | None]:
        """Returns the readers of records by key prefix."""
        ...

    def operator_states(self) -> list[ElementsReader | None]:
        """Returns the readers of operator state."""
        ...


class StoreReaders:
    """Reads the newest committed state, or the sealed batch if uncommitted state is requested."""

    __slots__ = ("_query", "_route")

    def __init__(self, route: StateRoute, query: query_pb2.Query) -> None:
        self._route = route
        self._query = query

    @property
    def records(self) -> RecordCache | None:
        route, query = self._route, self._query
        if route.incomplete and not query.allow_incomplete:
            return None
        if query.consistency == query_pb2.UNCOMMITTED and any(
            each.store.staged_version is not None for each in route.subtasks
        ):
            return None
        return route.records

    def points(self) -> list[PointReader | None]:
        route, query = self._route, self._query
        state_id, uncommitted = query.state_id, query.consistency == query_pb2.UNCOMMITTED
        readers: list[PointReader | None]
        if route.incomplete and not query.allow_incomplete:
            readers = [
                None if each.complete_since_batch else each.store.reader(state_id, uncommitted)
                for each in route.subtasks
            ]
        else:
            readers = [each.store.reader(state_id, uncommitted) for each in route.subtasks]
        readers.append(None)
        return readers

    def prefixes(self) -> list[PrefixReader | None]:
        return [*(None if store is None else store.prefix for store in self._stores()), None]

    def operator_states(self) -> list[ElementsReader | None]:
        stores = self._stores()
        return [*(None if store is None else store.operator_state for store in stores), None]

    def _stores(self) -> list[StateStore | None]:
        """The stores by slot; None if a store may not be read."""
        route = self._route
        if route.incomplete and not self._query.allow_incomplete:
            return [None if each.complete_since_batch else each.store for each in route.subtasks]
        return [each.store for each in route.subtasks]


def read_points(
    route: StateRoute,
    query: query_pb2.Query,
    keys: Sequence[bytes],
    now_ms: int,
    failures: AnswerFailures,
    readers: Readers,
    limits: Limits,
) -> tuple[list[bytes], list[int]]:
    """Returns the value of each key, and the positions of absent keys."""
    namespace = repeat(query.namespace or VOID_NAMESPACE)
    store_keys = cast("list[bytes]", list(map(concat, keys, namespace)))
    records = readers.records
    found: list[bytes | None]
    found = [None] * len(keys) if records is None else records.get_all(store_keys)
    missing: list[int] = []
    if not all(found):
        missing = [position for position, value in enumerate(found) if value == ABSENT]
    if None in found:
        points, slots = readers.points(), route.slots
        gone_ms = gone_at(route, now_ms)
        unknown = [position for position, value in enumerate(found) if value is None]
        if records is not None:
            route.reads.cache_misses += len(unknown)
        for position in unknown:
            key, store_key = keys[position], store_keys[position]
            try:
                read = points[slots[(key[0] << 8) | key[1]]]
            except IndexError:
                raise no_key_group(route, position, key) from None
            if read is None:
                failures.add(position, slots[(key[0] << 8) | key[1]])
                continue
            value = read(store_key)
            if value is None:
                missing.append(position)
                if records is not None:
                    records.keep(store_key, ABSENT)
                continue
            if value[0] & HAS_TIMESTAMP:
                try:
                    is_gone = gone_ms is not None and is_stale(value, gone_ms)
                except CorruptDataError as problem:
                    failures.add_corrupt(position, problem)
                    continue
                if is_gone:
                    missing.append(position)
                    continue
            elif records is not None:
                records.keep(store_key, value)
            found[position] = value
        missing.sort()
    fitting = cast(
        "list[bytes]", list(filter(None, found)) if missing or failures.positions else found
    )
    if sum(map(len, fitting)) > limits.answer_bytes:
        fitting = _fitting(found, limits.answer_bytes, failures)
    return fitting, missing


def read_record(route: StateRoute, state_id: int, key: bytes, store_key: bytes) -> bytes | None:
    """Reads and caches a committed record of a plain state; `ABSENT` if there is none.

    Returns None for a key of another server, and for a record that is not cached. Raises
    `IndexError` for a key without a key group of the state.
    """
    slot = route.slots[(key[0] << 8) | key[1]]
    if slot == NOT_HERE:
        return None
    value = route.subtasks[slot].store.reader(state_id, uncommitted=False)(store_key) or ABSENT
    if value and value[0] & HAS_TIMESTAMP:
        return None
    route.reads.cache_misses += 1
    route.records.keep(store_key, value)
    return value


def _fitting(found: Sequence[bytes | None], left: int, failures: AnswerFailures) -> list[bytes]:
    """Returns the first values that fit into `left` bytes; the others are added to `failures`."""
    values: list[bytes] = []
    for position, value in enumerate(found):
        if value:
            left -= len(value)
            if left < 0:
                failures.add_too_large(position)
            else:
                values.append(value)
    return values


def read_prefixes(
    route: StateRoute,
    query: query_pb2.Query,
    keys: Sequence[bytes],
    now_ms: int,
    failures: AnswerFailures,
    readers: Sequence[PrefixReader | None],
    limits: Limits,
    counted: RecordCount,
) -> tuple[list[bytes], list[int]]:
    """Returns all records of each key, serialized, and the positions of absent keys."""
    namespace = prefix_namespace(route, query)
    # The element of a timer begins with its namespace.
    skipped = 0 if route.registration.kind == registration_pb2.TIMER else len(namespace)
    state_id, uncommitted = query.state_id, query.consistency == query_pb2.UNCOMMITTED
    slots, most = route.slots, limits.prefix_records
    left, records_left = limits.answer_bytes, most
    gone_ms = gone_at(route, now_ms)
    values: list[bytes] = []
    missing: list[int] = []
    for position, key in enumerate(keys):
        try:
            read = readers[slots[(key[0] << 8) | key[1]]]
        except IndexError:
            raise no_key_group(route, position, key) from None
        if read is None:
            failures.add(position, slots[(key[0] << 8) | key[1]])
            continue
        if left < 0 or records_left <= 0:
            failures.add_too_large(position)
            continue
        prefix = key + namespace
        records = read(state_id, prefix, uncommitted, counted.next_limit(most + 1))
        counted.count(len(records))
        if len(records) > most:
            failures.add_too_many_records(position, most)
            continue
        records_left -= len(records)
        start = len(key) + skipped
        found = query_pb2.Records()
        try:
            for record_key, value in records:
                if gone_ms is None or not is_stale(value, gone_ms):
                    found.elements.append(record_key[start:])
                    found.values.append(value)
        except CorruptDataError as problem:
            failures.add_corrupt(position, problem)
            continue
        if not found.values:
            missing.append(position)
            continue
        serialized = found.SerializeToString()
        left -= len(serialized)
        if left < 0 and values:
            failures.add_too_large(position)
            continue
        values.append(serialized)
    return values, missing


def prefix_namespace(route: StateRoute, query: query_pb2.Query) -> bytes:
    """Returns what follows a key in the prefix of its records; empty: all timers of the key."""
    if route.registration.kind == registration_pb2.TIMER:
        return query.namespace
    return query.namespace or VOID_NAMESPACE


def gone_at(route: StateRoute, now_ms: int) -> int | None:
    """Returns the time up to which a last update makes a value gone; None: values never are."""
    return None if route.lifetime is None else route.lifetime.gone_ms(now_ms)


_KEY_GROUP_BYTES = 2


def check_whole_keys(route: StateRoute, keys: Sequence[bytes]) -> None:
    """Raises `InvalidRequestError` unless each key is a key group and one whole encoded key.

    Reads of all records of a key are reads by prefix: a part of a key would read other keys.
    No encoded key is a prefix of another, so a whole key reads its own records only. The key
    group needs no check: under a wrong one the key has no records.
    """
    key_end = route.key_end
    for key in keys:
        if key_end(key, _KEY_GROUP_BYTES) != len(key):
            raise InvalidRequestError(
                f"key {key[:16].hex()}... ({len(key)} bytes) of the query is not exactly one key "
                f"of state {route.name!r}: send key group (2 bytes) and the whole encoded key, "
                "and nothing behind it; scans read ranges of keys"
            )


def no_key_group(route: StateRoute, position: int, key: bytes) -> InvalidRequestError:
    """Returns the refusal of a key that does not begin with a key group of the state."""
    return InvalidRequestError(
        f"key {position} of the query ({key[:16].hex()}...) does not begin with a key group below "
        f"{route.registration.max_parallelism}: send key group (2 bytes) and encoded key"
    )


_TOO_LARGE = -2
_TOO_MANY = -3
_CORRUPT = -4
_NO_SUBTASK = -5


class AnswerFailures:
    """Collects the positions of failed keys by reason."""

    def __init__(self, route: StateRoute, server_id: str, placement_version: int) -> None:
        self._route = route
        self._server_id = server_id
        self._placement_version = placement_version
        self.positions: dict[int, list[int]] = {}
        """Failed keys by the slot of their store, or by reason; empty if no key has failed."""
        self._most_records = 0
        self._problem: CorruptDataError | None = None

    def add(self, position: int, slot: int) -> None:
        """Adds a key whose store, at `slot`, is incomplete or not on this server."""
        self.positions.setdefault(slot, []).append(position)

    def add_too_large(self, position: int) -> None:
        """Adds a key whose value does not fit in this answer, but may fit in the next."""
        self.add(position, _TOO_LARGE)

    def add_too_many_records(self, position: int, most: int) -> None:
        """Adds a key with more records than a query may read."""
        self._most_records = most
        self.add(position, _TOO_MANY)

    def add_corrupt(self, position: int, problem: CorruptDataError) -> None:
        """Adds a key whose value cannot be decoded."""
        self._problem = problem
        self.add(position, _CORRUPT)

    def add_no_subtask(self, position: int) -> None:
        """Adds a subtask of another parallelism."""
        self.add(position, _NO_SUBTASK)

    def to_proto(self) -> list[query_pb2.KeyFailure]:
        """Returns the groups as an answer carries them, and counts the failed query."""
        errors = {slot: self._error(slot) for slot in self.positions}
        for reason in {error.reason_name for error in errors.values()}:
            self._route.reads.failed[reason] += 1
        return [
            query_pb2.KeyFailure(indexes=positions, error=errors[slot].to_proto())
            for slot, positions in self.positions.items()
        ]

    def _error(self, slot: int) -> QueryableStateError:
        name = self._route.name
        if slot == NOT_HERE:
            return not_here(self._route, self._server_id, self._placement_version)
        if slot == _NO_SUBTASK:
            # No retry by a proxy can help: the client must locate the state again.
            return UnknownStateError(
                f"the operator of state {name!r} has no subtask with these key groups, because it "
                "runs at another parallelism: locate the state again"
            )
        if slot == _TOO_LARGE:
            return RetryLaterError(
                f"the requested values of state {name!r} do not fit in one answer: "
                "request these keys again, fewer at once",
                reason=Reason.OVERLOADED,
                retry_after_ms=1,
            )
        if slot == _TOO_MANY:
            return LimitExceededError(
                f"state {name!r} has more than {self._most_records} records under this key and "
                "namespace: read single entries, or single windows, instead"
            )
        if slot == _CORRUPT:
            return CorruptDataError(
                f"state {name!r} has a value under this key that server {self._server_id} cannot "
                f"read: {self._problem}"
            )
        return state_lost(self._route, slot)


def not_here(route: StateRoute, server_id: str, placement_version: int) -> PlacementError:
    """Returns the refusal of key groups that other servers own."""
    return PlacementError(
        f"server {server_id} does not own these key groups of state {route.name!r}: ask their "
        "owners, which LocateState names, or a proxy",
        placement_version=placement_version,
    )


def state_lost(route: StateRoute, slot: int) -> StateLostError:
    """Returns the refusal of key groups whose store has lost older state."""
    since = route.subtasks[slot].complete_since_batch
    return StateLostError(
        f"state {route.name!r} written before batch {since} is lost "
        "for these key groups, because its server failed and the job keeps no checkpoints; allow "
        "incomplete answers to read later state, or restart job "
        f"{route.registration.job_id.hex()} from a checkpoint",
        complete_since_batch=since,
    )
