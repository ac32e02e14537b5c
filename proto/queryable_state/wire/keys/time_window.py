"""Time windows: the namespaces of windowed state, and which namespaces a registered state has."""

from __future__ import annotations

from datetime import datetime

from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import CorruptDataError, InvalidRequestError, Reason
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE, window_namespace, window_of
from queryable_state.wire.schema.type_model import Field, Kind, TypeInfo

TIME_WINDOW_TYPE = TypeInfo(
    Kind.ROW,
    fields=(Field("start_ms", TypeInfo(Kind.LONG)), Field("end_ms", TypeInfo(Kind.LONG))),
)
"""The registered `namespace_type` of state in time windows."""


class TimeWindow:
    """The interval from `start` (inclusive) to `end` (exclusive), milliseconds since the epoch.

    Sorts by start, then end. Immutable by convention.
    """

    __slots__ = ("end", "start")

    def __init__(self, start: int | datetime, end: int | datetime) -> None:
        """A `datetime` must have a time zone.

        Raises `InvalidRequestError` for other types, and for an end before the start.
        """
        self.start = start if type(start) is int else epoch_ms(start, "start of a window")
        self.end = end if type(end) is int else epoch_ms(end, "end of a window")
        if self.end < self.start:
            raise InvalidRequestError(
                f"a window from {self.start} to {self.end} ends before it starts: give the start "
                "first"
            )

    @classmethod
    def of_namespace(cls, namespace: bytes) -> TimeWindow:
        """The window of an encoded namespace; raises `CorruptDataError` for any other one."""
        window = window_of(namespace)
        if window is None or window[0] > window[1]:
            raise CorruptDataError(f"namespace {namespace[:20].hex()} is not a time window")
        return cls(*window)

    @property
    def namespace(self) -> bytes:
        """The encoded namespace; raises `InvalidRequestError` for times of more than 64 bits."""
        return window_namespace(self.start, self.end)

    def jsonable(self) -> dict[str, int]:
        """The window for `json.dumps`."""
        return {"start_ms": self.start, "end_ms": self.end}

    def max_timestamp(self) -> int:
        """The last millisecond of the window: `end - 1`."""
        return self.end - 1

    def intersects(self, other: TimeWindow) -> bool:
        """True if the windows overlap or touch."""
        return self.start <= other.end and self.end >= other.start

    def cover(self, other: TimeWindow) -> TimeWindow:
        """The smallest window that has both."""
        return TimeWindow(min(self.start, other.start), max(self.end, other.end))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TimeWindow):
            return NotImplemented
        return self.start == other.start and self.end == other.end

    def __lt__(self, other: TimeWindow) -> bool:
        return (self.start, self.end) < (other.start, other.end)

    def __le__(self, other: TimeWindow) -> bool:
        return (self.start, self.end) <= (other.start, other.end)

    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __repr__(self) -> str:
        return f"TimeWindow(start={self.start}, end={self.end})"


def epoch_ms(time: object, what: str) -> int:
    """Milliseconds since the epoch of a number of these, or of a `datetime` with a time zone.

    Raises `InvalidRequestError`, which names the time as `what`.
    """
    if isinstance(time, datetime) and time.tzinfo is not None:
        return round(time.timestamp() * 1000)
    if isinstance(time, int) and not isinstance(time, bool):
        return int(time)
    zone = " without a time zone" if isinstance(time, datetime) else ""
    raise InvalidRequestError(
        f"the {what} must be milliseconds since the epoch or a datetime with a time zone, not "
        f"{time!r}{zone}"
    )


def is_windowed(state: registration_pb2.StateRegistration) -> bool:
    """True if the records of the state belong to windows."""
    return state.HasField("namespace_type")


def check_window(
    state: registration_pb2.StateRegistration,
    namespace: bytes,
    read: query_pb2.ReadKind.ValueType = query_pb2.POINT,
) -> None:
    """Checks the namespace of a read: a window exactly if the read is of a value in a window.

    `namespace` is encoded; empty: none is given. WINDOWS reads all windows, and other reads of
    timers those of all windows or of one. Raises `InvalidRequestError`.
    """
    has_window = namespace not in (b"", VOID_NAMESPACE)
    name = state.queryable_name or state.state_name
    if has_window and not is_windowed(state):
        raise InvalidRequestError(
            f"state {name!r} has no windows, and the query names one: leave out the window"
        )
    if read == query_pb2.WINDOWS:
        _check_windows(state, namespace, name)
    elif is_windowed(state) and not has_window and state.kind != registration_pb2.TIMER:
        raise InvalidRequestError(
            f"state {name!r} has a value for each window of a key, and the query names no "
            "window: pass window=TimeWindow(start, end) (command line: --window START/END; JSON: "
            '"window"), or read all windows of the key with get_windows (command line: windows; '
            'JSON: "read": "WINDOWS")'
        )


def _check_windows(state: registration_pb2.StateRegistration, namespace: bytes, name: str) -> None:
    if state.kind == registration_pb2.TIMER:
        raise InvalidRequestError(
            f"state {name!r} is of timers: read them with get_timers", reason=Reason.UNSUPPORTED
        )
    if not is_windowed(state):
        raise InvalidRequestError(
            f"state {name!r} has no windows: read its only value with get_kv_state",
            reason=Reason.UNSUPPORTED,
        )
    if namespace:
        raise InvalidRequestError(
            f"all windows of a key of state {name!r} are requested, and one window is named, too: "
            "leave one of them out"
        )
