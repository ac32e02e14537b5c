"""Reads of the windows of a key: all that have a value, those of a time range, or the newest."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.server.state_server.queries.key_reads import (
    MANY_RECORDS,
    gone_at,
    no_key_group,
)
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import CorruptDataError, InvalidRequestError, Reason
from queryable_state.wire.keys.store_keys import RESULT_ELEMENT, namespace_end
from queryable_state.wire.keys.time_window import TimeWindow
from queryable_state.wire.values.value_codec import is_stale

if TYPE_CHECKING:
    from collections.abc import Sequence

    from queryable_state.server.config.limits import Limits
    from queryable_state.server.state_server.queries.key_reads import (
        AnswerFailures,
        PrefixReader,
        RecordCount,
    )
    from queryable_state.server.state_server.stores.store_table import StateRoute

_ALL = query_pb2.WindowRange()


def read_windows(
    route: StateRoute,
    query: query_pb2.Query,
    keys: Sequence[bytes],
    now_ms: int,
    failures: AnswerFailures,
    readers: Sequence[PrefixReader | None],
    limits: Limits,
    counted: RecordCount,
) -> tuple[list[bytes], list[int]]:
    """Returns the answer of WINDOWS for each key, and the positions of keys without windows.

    It reads all records of a key, in any window, within the limits of a read by prefix.
    """
    ranges = query.windows or (_ALL,)
    state_id, uncommitted = query.state_id, query.consistency == query_pb2.UNCOMMITTED
    slots, most = route.slots, limits.prefix_records
    left, records_left = limits.answer_bytes, most
    windows = _Windows(route, gone_at(route, now_ms))
    values: list[bytes] = []
    missing: list[int] = []
    for position, key in enumerate(keys):
        try:
            slot = slots[(key[0] << 8) | key[1]]
        except IndexError:
            raise no_key_group(route, position, key) from None
        read = readers[slot]
        if read is None:
            failures.add(position, slot)
            continue
        if left < 0 or records_left <= 0:
            failures.add_too_large(position)
            continue
        records = read(state_id, key, uncommitted, counted.next_limit(most + 1))
        counted.count(len(records))
        if len(records) > most:
            failures.add_too_many_records(position, most)
            continue
        records_left -= len(records)
        wanted = ranges[position if len(ranges) > 1 else 0]
        try:
            found = windows.of_key(records, len(key), wanted)
        except CorruptDataError as problem:
            failures.add_corrupt(position, problem)
            continue
        if not found.windows:
            missing.append(position)
            continue
        if not wanted.micros and any(each.end_ms < each.start_ms for each in found.windows):
            raise InvalidRequestError(
                f"state {route.name!r} has windows that are not of whole milliseconds, which this "
                "client does not know: use a client of this server's version",
                reason=Reason.UNSUPPORTED,
            )
        serialized = found.SerializeToString()
        left -= len(serialized)
        if left < 0 and values:
            failures.add_too_large(position)
            continue
        values.append(serialized)
    return values, missing


class _Windows:
    """Groups the records of a key by window, and leaves out those that a query does not see."""

    def __init__(self, route: StateRoute, gone_ms: int | None) -> None:
        self._has_many = route.registration.kind in MANY_RECORDS
        self._gone_ms = gone_ms

    def of_key(
        self,
        records: Sequence[tuple[bytes, bytes]],
        key_bytes: int,
        wanted: query_pb2.WindowRange,
    ) -> query_pb2.KeyWindows:
        """Returns the wanted windows; the keys of records begin with a key of `key_bytes` bytes."""
        found: dict[TimeWindow, query_pb2.Records] = {}
        namespace, window = b"", None
        for record_key, value in records:
            if not namespace or not record_key.startswith(namespace, key_bytes):
                namespace = record_key[key_bytes : namespace_end(record_key, key_bytes)]
                window = TimeWindow.of_namespace(namespace)
            assert window is not None
            element = record_key[key_bytes + len(namespace) :]
            # An accumulator is stored beside the result that queries read.
            if element != RESULT_ELEMENT and not self._has_many:
                continue
            if not _is_wanted(window, wanted):
                continue
            if self._gone_ms is not None and is_stale(value, self._gone_ms):
                continue
            of_window = found.setdefault(window, query_pb2.Records())
            of_window.elements.append(element)
            of_window.values.append(value)
        return _answer(found, wanted)


def _is_wanted(window: TimeWindow, wanted: query_pb2.WindowRange) -> bool:
    start_us, end_us = _bounds(wanted)
    return (start_us is None or window.start_us >= start_us) and (
        end_us is None or window.start_us < end_us
    )


def _bounds(wanted: query_pb2.WindowRange) -> tuple[int | None, int | None]:
    start_us = end_us = None
    if wanted.HasField("from_us"):
        start_us = wanted.from_us
    elif wanted.HasField("from_ms"):
        start_us = wanted.from_ms * 1000
    if wanted.HasField("to_us"):
        end_us = wanted.to_us
    elif wanted.HasField("to_ms"):
        end_us = wanted.to_ms * 1000
    return start_us, end_us


def _answer(
    found: dict[TimeWindow, query_pb2.Records], wanted: query_pb2.WindowRange
) -> query_pb2.KeyWindows:
    # In the order of the records: by start, then end.
    windows = list(found)
    if wanted.limit:
        windows = windows[-wanted.limit :] if wanted.newest else windows[: wanted.limit]
    return query_pb2.KeyWindows(
        windows=[each.to_proto() for each in windows],
        records=[found[each] for each in windows],
    )
