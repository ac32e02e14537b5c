"""Windows of one key with their states."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from queryable_state.client._reading.state_types import state_of
from queryable_state.client._reading.states import DecodeContext
from queryable_state.client._short_repr import short_repr
from queryable_state.v1 import query_pb2
from queryable_state.wire.errors import CorruptDataError
from queryable_state.wire.keys.time_window import TimeWindow

if TYPE_CHECKING:
    from collections.abc import Iterator

    from queryable_state.client._reading.info import ReadInfo
    from queryable_state.client._reading.states import KvState


class WindowedKey(NamedTuple):
    """One window of a key, as a scan of every window has it."""

    key: Any
    window: TimeWindow


class KeyWindows(Mapping[TimeWindow, "KvState"]):
    """The windows of one key that have a state, by start and then end, at one version."""

    __slots__ = ("_context", "_states")

    def __init__(self, data: bytes | None, context: DecodeContext) -> None:
        """`data` is None if there is no window."""
        self._context = context
        self._states = {} if data is None else _states(data, context)

    @property
    def info(self) -> ReadInfo:
        """The batch of the lookup, its clocks, and the server that answered."""
        return self._context.info

    @property
    def newest(self) -> KvState | None:
        """The state of the window that starts last; None if there is no window."""
        return next(reversed(self._states.values()), None)

    def __getitem__(self, window: TimeWindow) -> KvState:
        return self._states[window]

    def __iter__(self) -> Iterator[TimeWindow]:
        return iter(self._states)

    def __len__(self) -> int:
        return len(self._states)

    def __repr__(self) -> str:
        states = short_repr(list(self._states.values()))
        return f"<{type(self).__name__} at batch {self.info.version}: {states}>"


def newest_window(data: bytes, context: DecodeContext) -> KvState:
    """Returns the state of the last window of an answer, which has at least one."""
    *_, newest = _states(data, context).values()
    return newest


def _states(data: bytes, context: DecodeContext) -> dict[TimeWindow, KvState]:
    found = query_pb2.KeyWindows.FromString(data)
    if not found.windows or len(found.windows) != len(found.records):
        raise CorruptDataError(
            f"a server returned {len(found.records)} states for {len(found.windows)} windows"
        )
    states = {}
    for each, records in zip(found.windows, found.records, strict=True):
        window = TimeWindow.of_proto(each)
        of_window = DecodeContext(context.codecs, context.proto, window)
        states[window] = state_of(context.codecs.kind, records, of_window)
    return states
