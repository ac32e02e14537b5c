"""Every way to ask a served state, compared with the records of Spark's own reader."""

from __future__ import annotations

import itertools
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tests.native_state.answers.client_records import ANY_PARTITION, records_of, scanned_records
from tests.native_state.answers.records import Record, differences
from tests.native_state.answers.records import plain as plain_of

from queryable_state.client import TimeWindow
from queryable_state.v1 import registration_pb2
from queryable_state.wire.errors import QueryableStateError, UnknownKeyOrNamespaceError
from queryable_state.wire.schema.type_model import Kind, TypeInfo, given

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from random import Random

    from queryable_state.client.blocking import QueryableStateClient
    from queryable_state.server.native_state.operators.state_layout import StateDefinition

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ORDERED = {
    *(Kind.BYTE, Kind.SHORT, Kind.INT, Kind.LONG, Kind.FLOAT, Kind.DOUBLE, Kind.DECIMAL),
    *(Kind.STRING, Kind.BINARY, Kind.DATE, Kind.TIMESTAMP, Kind.TIMESTAMP_NTZ, Kind.TIME),
}
"""Kinds of keys whose order is that of Python."""

QUERY = "query"
_REFUSED: Any = object()
"""In place of a value: the look-up was refused by name."""


def value_of(info: TypeInfo, plain: Any) -> Any:
    """A value of Spark's answer as users give it."""
    if plain is None:
        return None
    match info.kind:
        case Kind.ROW:
            return tuple(
                value_of(each.type, part) for each, part in zip(info.fields, plain, strict=True)
            )
        case Kind.LIST:
            return tuple(value_of(given(info.element), part) for part in plain)
        case Kind.TIMESTAMP:
            return _EPOCH + timedelta(microseconds=plain)
        case Kind.TIMESTAMP_NTZ:
            return (_EPOCH + timedelta(microseconds=plain)).replace(tzinfo=None)
        case Kind.TIME:
            return (_EPOCH + timedelta(microseconds=plain)).time()
        case Kind.DATE:
            return date.fromordinal(_EPOCH.toordinal() + plain)
        case Kind.DECIMAL:
            return Decimal(plain)
        case Kind.FLOAT | Kind.DOUBLE:
            return float(plain)
        case Kind.BINARY:
            return bytes.fromhex(plain)
        case _:
            return plain


def unsigned(plain: Any) -> Any:
    """A key without the signs of its zeros, which look-ups do not tell apart."""
    if isinstance(plain, list):
        return [unsigned(each) for each in plain]
    return "0.0" if plain == "-0.0" else plain


def same_zero(plain: Any) -> str:
    """The text of a key without the signs of its zeros."""
    return repr(unsigned(plain))


def compared(found: Iterable[Record], expected: Iterable[Record]) -> list[str]:
    """The differences of records, but for the signs of zeros in keys and entries' keys."""

    def without_signs(records: Iterable[Record]) -> list[Record]:
        return [
            record._replace(key=unsigned(record.key), element=unsigned(record.element))
            for record in records
        ]

    return differences(without_signs(found), without_signs(expected))


@dataclass
class CheckedState:
    """One state of a server and the records that Spark's reader has of it, as of one batch."""

    client: QueryableStateClient
    state: StateDefinition
    expected: list[Record]
    random: Random
    refusals: list[str]
    """Gets a line for each question that was refused by name."""

    def problems(self, gone: Sequence[Any] = ()) -> Iterator[str]:
        """A line for each difference; `gone`: keys, as Spark has them, that may be away."""
        name = self.state.queryable_name
        for how, found in (
            ("scan", self._scan),
            ("scan in pages", self._scan_in_pages),
            ("look-ups", self._look_ups),
            ("single look-ups", self._single_look_ups),
            ("absent keys", lambda: self._absent(gone)),
            ("range", self._range),
            ("prefix", self._prefix),
        ):
            try:
                for each in found():
                    yield f"{name}, {how}: {each}"
            except UnknownKeyOrNamespaceError as unknown:
                yield f"{name}, {how}: {unknown.message}"
            except QueryableStateError as refusal:
                self._refused(how, refusal)

    def _refused(self, how: str, refusal: QueryableStateError) -> None:
        said = f"{self.state.queryable_name}, {how}: {type(refusal).__name__}: {refusal.message}"
        self.refusals.append(said)

    @property
    def _by_key(self) -> dict[str, tuple[Any, list[Record]]]:
        """Each key as Spark has it, and its records."""
        found: dict[str, tuple[Any, list[Record]]] = {}
        for record in self.expected:
            found.setdefault(repr(record.key), (record.key, []))[1].append(record)
        return found

    @property
    def _is_windowed(self) -> bool:
        return self.state.namespace_type is not None

    def _key(self, plain: Any) -> Any:
        info = self.state.key_type
        return value_of(info, plain if info.kind == Kind.ROW else plain[0])

    def _scan(self) -> list[str]:
        return compared(scanned_records(self.client, QUERY, self.state)[0], self.expected)

    def _part(self, **part: Any) -> list[Record]:
        return scanned_records(self.client, QUERY, self.state, **part)[0]

    def _scan_in_pages(self) -> list[str]:
        found: list[Record] = []
        token = b""
        while True:
            with self.client.scan(
                QUERY, self.state.queryable_name, limit=7, page_token=token
            ) as scan:
                found += [
                    record
                    for key, value in scan
                    if value is not None
                    for record in records_of(self.state, key, value)
                ]
                token = scan.page_token
            if not token:
                return compared(found, self.expected)

    def _windows(self, key: Any, **options: Any) -> list[Record]:
        windows = self.client.get_windows(QUERY, self.state.queryable_name, key, **options)
        return [
            record
            for window, value in windows.items()
            for record in records_of(self.state, (key, window), value)
        ]

    def _look_ups(self) -> Iterator[str]:
        asked = [(self._key(plain), records) for plain, records in self._by_key.values()]
        if self._is_windowed:
            for key, records in asked:
                yield from self._windows_of(key, records)
            return
        name = self.state.queryable_name
        try:
            values = self.client.get_kv_states(QUERY, name, [key for key, _ in asked])
        except QueryableStateError as refusal:
            self._refused("look-ups", refusal)
            values = [self._alone(key) for key, _ in asked]
        for (key, records), value in zip(asked, values, strict=True):
            if value is _REFUSED:
                continue
            found = [] if value is None else list(records_of(self.state, key, value))
            yield from (f"key {key!r}: {each}" for each in _of_one(found, records))

    def _alone(self, key: Any) -> Any:
        try:
            return self.client.get_kv_state(QUERY, self.state.queryable_name, key)
        except UnknownKeyOrNamespaceError:
            return None
        except QueryableStateError as refusal:
            self._refused(repr(key), refusal)
            return _REFUSED

    def _windows_of(self, key: Any, records: list[Record]) -> Iterator[str]:
        yield from (f"key {key!r}: {each}" for each in _of_one(self._windows(key), records))
        starts = sorted({record.window[0] for record in records})
        start = self.random.choice(starts)
        for part in ({"start": start}, {"end": start}, {"start": start, "end": start + 1}):
            low, high = part.get("start", starts[0]), part.get("end", starts[-1] + 1)
            wanted = [record for record in records if low <= record.window[0] < high]
            times = {name: _EPOCH + timedelta(microseconds=us) for name, us in part.items()}
            found = self._windows(key, **times)
            yield from (f"key {key!r}, {part}: {each}" for each in _of_one(found, wanted))
        one = self.random.choice(records)
        window = TimeWindow.of_micros(*one.window)
        value = self.client.get_kv_state(QUERY, self.state.queryable_name, key, window=window)
        of_one = [record for record in records if record.window == one.window]
        found = list(records_of(self.state, (key, window), value))
        yield from (f"key {key!r}, {window}: {each}" for each in _of_one(found, of_one))

    def _single_look_ups(self) -> Iterator[str]:
        if self._is_windowed or not self.expected:
            return
        keys = list(self._by_key.values())
        for plain, records in self.random.sample(keys, min(5, len(keys))):
            key = self._key(plain)
            try:
                yield from (f"key {key!r}: {each}" for each in self._parts(key, records))
            except UnknownKeyOrNamespaceError:
                yield f"key {key!r}: unknown"

    def _parts(self, key: Any, records: list[Record]) -> Iterator[str]:
        """What presence, size, entries and slices of one key say."""
        client, state, name = self.client, self.state, self.state.queryable_name
        value = client.get_kv_state(QUERY, name, key)
        yield from _of_one(list(records_of(state, key, value)), records)
        if not client.contains(QUERY, name, key):
            yield "contains is False"
        if state.kind == registration_pb2.MAP:
            yield from self._entries(key, records)
        if state.kind == registration_pb2.LIST:
            start = self.random.randint(-len(records), len(records))
            sliced = client.get_list_slice(QUERY, name, key, start, 2)
            wanted = list(value.get())[start:][:2]
            if repr(list(sliced.get())) != repr(wanted):
                yield f"slice {start}: {list(sliced.get())!r}, not {wanted!r}"
        if state.kind in (registration_pb2.MAP, registration_pb2.LIST):
            elements = client.size(QUERY, name, key).elements
            if elements != len(records):
                yield f"size is {elements}, not {len(records)}"

    def _entries(self, key: Any, records: list[Record]) -> Iterator[str]:
        info = given(self.state.map_key_type)
        for record in records:
            element = record.element if info.kind == Kind.ROW else record.element[0]
            entry: Any = self.client.get_map_entry(
                QUERY, self.state.queryable_name, key, value_of(info, element)
            )
            whole = self.client.get_kv_state(QUERY, self.state.queryable_name, key)
            (same,) = (
                each
                for map_key, each in whole.items()
                if same_zero(_element(map_key, info)) == same_zero(record.element)
            )
            if repr(None if entry is None else entry.value()) != repr(same):
                yield f"entry {element!r}: {entry!r}, not {same!r}"

    def _absent(self, gone: Sequence[Any]) -> Iterator[str]:
        here = {same_zero(record.key) for record in self.expected}
        away = [key for key in itertools.chain(gone, self._mixed()) if same_zero(key) not in here]
        for plain in self.random.sample(away, min(8, len(away))):
            key = self._key(plain)
            if self._is_windowed:
                found: Any = self._windows(key)
            elif self.state.kind == registration_pb2.TIMER:
                found = list(self.client.get_timers(QUERY, self.state.queryable_name, key))
            else:
                (found,) = self.client.get_kv_states(QUERY, self.state.queryable_name, [key])
            if found:
                yield f"key {key!r} is not there, but has {found!r}"

    def _mixed(self) -> Iterator[Any]:
        """Keys that have the first column of one key, and the others of another one."""
        keys = [record.key for record in self.expected]
        if self.state.key_type.kind == Kind.ROW and len(keys) > 1:
            for _ in range(8):
                one, other = self.random.sample(keys, 2)
                if one is not None and other is not None:
                    yield [one[0], *other[1:]]

    def _range(self) -> Iterator[str]:
        info = self.state.key_type
        if info.kind not in _ORDERED:
            return
        whole = [(self._key(record.key), record) for record in self.expected]
        known = [pair for pair in whole if pair[0] is not None and pair[0] == pair[0]]
        if not known:
            return
        for _ in range(3):
            low, high = sorted((self.random.choice(known)[0] for _ in range(2)), key=_in_order)
            wanted = [
                record
                for key, record in known
                if _in_order(low) <= _in_order(key) < _in_order(high)
            ]
            found = self._part(start=low, end=high)
            yield from (f"{low!r} to {high!r}: {each}" for each in compared(found, wanted))

    def _prefix(self) -> Iterator[str]:
        info = self.state.key_type
        keys = [record.key for record in self.expected if record.key is not None]
        if not keys:
            return
        for _ in range(3):
            plain = self.random.choice(keys)
            key = self._key(plain)
            if info.kind in (Kind.STRING, Kind.BINARY) and key is not None:
                prefix = key[: self.random.randint(0, len(key))]
                wanted = [
                    record
                    for record in self.expected
                    if (each := self._key(record.key)) is not None and each.startswith(prefix)
                ]
            elif info.kind == Kind.ROW:
                prefix = key[: self.random.randint(1, len(key))]
                first = same_zero(plain[: len(prefix)])
                wanted = [
                    record
                    for record in self.expected
                    if record.key is not None and same_zero(record.key[: len(prefix)]) == first
                ]
            else:
                return
            found = self._part(prefix=prefix)
            yield from (f"{prefix!r}: {each}" for each in compared(found, wanted))


def _in_order(key: Any) -> Any:
    """What keys of one kind are ordered by."""
    return key.encode() if isinstance(key, str) else key


def _element(map_key: Any, info: TypeInfo) -> Any:
    return plain_of(map_key) if info.kind == Kind.ROW else [plain_of(map_key)]


def _of_one(found: Iterable[Record], expected: Iterable[Record]) -> list[str]:
    """The differences of records of one key, which may have been asked for by another zero."""
    return compared(
        [record._replace(key=None) for record in found],
        [record._replace(key=None) for record in expected],
    )


def without_partitions(records: Iterable[Record]) -> list[Record]:
    """The records as clients see them."""
    return [record._replace(partition=ANY_PARTITION) for record in records]


def keys_by_state(records: dict[str, list[Record]]) -> dict[str, list[Any]]:
    """The keys of each state."""
    found: dict[str, list[Any]] = defaultdict(list)
    for name, each in records.items():
        found[name] += [record.key for record in each]
    return found
