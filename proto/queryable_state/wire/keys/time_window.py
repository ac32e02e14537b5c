"""Time windows: the namespaces of windowed state, and which namespaces a registered state has."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Self

from queryable_state.v1 import query_pb2, registration_pb2
from queryable_state.wire.errors import CorruptDataError, InvalidRequestError, Reason
from queryable_state.wire.keys.store_keys import (
    VOID_NAMESPACE,
    micros_namespace,
    micros_of_window,
    window_namespace,
    write_window,
)
from queryable_state.wire.schema.type_model import Field, Kind, TypeInfo

if TYPE_CHECKING:
    from queryable_state.wire.keys.store_keys import WindowMessage

TIME_WINDOW_TYPE = TypeInfo(
    Kind.ROW,
    fields=(Field("start_ms", TypeInfo(Kind.LONG)), Field("end_ms", TypeInfo(Kind.LONG))),
)
"""The registered `namespace_type` of state in time windows of milliseconds."""

MICROS_WINDOW_TYPE = TypeInfo(
    Kind.ROW,
    fields=(Field("start_us", TypeInfo(Kind.LONG)), Field("end_us", TypeInfo(Kind.LONG))),
)
"""The registered `namespace_type` of state in time windows of microseconds."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_WHOLE = (0, 0)


class TimeWindow:
    """The interval from `start` (inclusive) to `end` (exclusive), milliseconds since the epoch.

    Windows of state that Spark keeps have microseconds: those are in `start_us` and `end_us`, and
    part of the window's identity; `start` and `end` are rounded down. Sorts by start, then end.
    Immutable by convention.
    """

    __slots__ = ("_below_ms", "end", "start")

    def __init__(self, start: int | datetime, end: int | datetime) -> None:
        """A `datetime` must have a time zone, and is exact. `of_micros` takes microseconds.

        Raises `InvalidRequestError` for other types, and for an end before the start.
        """
        self._below_ms = _WHOLE
        if type(start) is int and type(end) is int:
            self.start, self.end = start, end
        else:
            self._set(epoch_us(start, "start of a window"), epoch_us(end, "end of a window"))
        if self.end < self.start or (self._below_ms is not _WHOLE and self.end_us < self.start_us):
            raise InvalidRequestError(
                f"a window from {start} to {end} ends before it starts: give the start first"
            )

    @classmethod
    def of_micros(cls, start_us: int, end_us: int) -> Self:
        """The window between two times in microseconds since the epoch."""
        window = cls.__new__(cls)
        window._set(start_us, end_us)
        if end_us < start_us:
            raise InvalidRequestError(
                f"a window from {start_us} to {end_us} microseconds ends before it starts: give "
                "the start first"
            )
        return window

    def _set(self, start_us: int, end_us: int) -> None:
        self.start, start_below = divmod(start_us, 1000)
        self.end, end_below = divmod(end_us, 1000)
        self._below_ms = (start_below, end_below) if start_below or end_below else _WHOLE

    @classmethod
    def of_namespace(cls, namespace: bytes) -> TimeWindow:
        """The window of an encoded namespace; raises `CorruptDataError` for any other one."""
        window = micros_of_window(namespace)
        if window is None or window[0] > window[1]:
            raise CorruptDataError(f"namespace {namespace[:20].hex()} is not a time window")
        return cls.of_micros(*window)

    @classmethod
    def of_proto(cls, message: WindowMessage) -> TimeWindow:
        """The window of a message."""
        if message.HasField("start_us") and message.HasField("end_us"):
            return cls.of_micros(message.start_us, message.end_us)
        return cls(message.start_ms, message.end_ms)

    def to_proto(self) -> query_pb2.TimeWindow:
        """The window as a message."""
        message = query_pb2.TimeWindow()
        write_window(self.namespace, message)
        return message

    @property
    def start_us(self) -> int:
        """The start in microseconds since the epoch."""
        return self.start * 1000 + self._below_ms[0]

    @property
    def end_us(self) -> int:
        """The end in microseconds since the epoch."""
        return self.end * 1000 + self._below_ms[1]

    @property
    def namespace(self) -> bytes:
        """The encoded namespace; raises `InvalidRequestError` for times of more than 64 bits."""
        if self._below_ms == _WHOLE:
            return window_namespace(self.start, self.end)
        return micros_namespace(self.start_us, self.end_us)

    def jsonable(self) -> dict[str, int]:
        """The window for `json.dumps`: in milliseconds if they are whole, else in microseconds."""
        if self._below_ms == _WHOLE:
            return {"start_ms": self.start, "end_ms": self.end}
        return {"start_us": self.start_us, "end_us": self.end_us}

    def max_timestamp(self) -> int:
        """The last millisecond that begins in the window."""
        return self.end - 1 if not self._below_ms[1] else self.end

    def intersects(self, other: TimeWindow) -> bool:
        """True if the windows overlap or touch."""
        if self._below_ms is _WHOLE is other._below_ms:
            return self.start <= other.end and self.end >= other.start
        return self.start_us <= other.end_us and self.end_us >= other.start_us

    def cover(self, other: TimeWindow) -> TimeWindow:
        """The smallest window that has both."""
        return TimeWindow.of_micros(
            min(self.start_us, other.start_us), max(self.end_us, other.end_us)
        )

    def __setstate__(self, state: tuple[dict[str, object] | None, ...]) -> None:
        # A pickle of the two bounds alone is of whole milliseconds.
        self._below_ms = _WHOLE
        for part in state:
            for name, value in (part or {}).items():
                setattr(self, name, value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TimeWindow):
            return NotImplemented
        return (
            self.start == other.start
            and self.end == other.end
            and self._below_ms == other._below_ms
        )

    def __lt__(self, other: TimeWindow) -> bool:
        return self._order() < other._order()

    def __le__(self, other: TimeWindow) -> bool:
        return self._order() <= other._order()

    def _order(self) -> tuple[int, int, int, int]:
        start_below, end_below = self._below_ms
        return self.start, start_below, self.end, end_below

    def __hash__(self) -> int:
        return hash((self.start, self.end))

    def __repr__(self) -> str:
        if self._below_ms == _WHOLE:
            return f"TimeWindow(start={self.start}, end={self.end})"
        return f"TimeWindow.of_micros({self.start_us}, {self.end_us})"


def epoch_us(time: object, what: str) -> int:
    """Microseconds since the epoch of a number of milliseconds, or a `datetime` with a zone.

    Raises `InvalidRequestError`, which names the time as `what`.
    """
    if isinstance(time, datetime) and time.tzinfo is not None:
        return (time - _EPOCH) // _MICROSECOND
    if isinstance(time, int) and not isinstance(time, bool):
        return int(time) * 1000
    zone = " without a time zone" if isinstance(time, datetime) else ""
    raise InvalidRequestError(
        f"the {what} must be milliseconds since the epoch or a datetime with a time zone, not "
        f"{time!r}{zone}"
    )


def window_range(start_us: int | None, end_us: int | None) -> query_pb2.WindowRange:
    """The windows that start in a range of microseconds since the epoch; None: without a bound.

    A server that does not know the microseconds has the bounds in milliseconds, rounded up, which
    select the same of its windows. Raises `ValueError` for a bound of more than 64 bits.
    """
    wanted = query_pb2.WindowRange(micros=True)
    if start_us is not None:
        wanted.from_ms = -(-start_us // 1000)
        if start_us % 1000:
            wanted.from_us = start_us
    if end_us is not None:
        wanted.to_ms = -(-end_us // 1000)
        if end_us % 1000:
            wanted.to_us = end_us
    return wanted


def has_micros(state: registration_pb2.StateRegistration) -> bool:
    """True if the windows of the state have microseconds."""
    return [field.name for field in state.namespace_type.fields] == ["start_us", "end_us"]


def stored_namespace(state: registration_pb2.StateRegistration, namespace: bytes) -> bytes:
    """The namespace of a query as the state has it: in one form, so that it sorts by time."""
    if namespace in (b"", VOID_NAMESPACE) or not has_micros(state):
        return namespace
    window = micros_of_window(namespace)
    return namespace if window is None else micros_namespace(*window)


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
