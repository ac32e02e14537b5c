"""Formatting of one state's keys and values as JSON and as table cells."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from queryable_state.cli.answers import life_text
from queryable_state.cli.tables import cell, iso_text, window_text
from queryable_state.client import (
    ListSlice,
    ListState,
    MapEntry,
    MapState,
    PendingTimers,
    ValueState,
    WindowedKey,
)
from queryable_state.wire.json_text import to_jsonable
from queryable_state.wire.keys.pending_timers import timers_jsonable
from queryable_state.wire.schema.type_model import Kind, TypeInfo, given

if TYPE_CHECKING:
    from queryable_state.client import KvState, PendingTimer, StateInfo


class ShownState:
    """Formatter of a state's keys and values."""

    def __init__(self, state: StateInfo) -> None:
        self.state = state
        self._expires = state.ttl_ms > 0 or state.ttl_per_value
        self.key_head = _head("key", state.key_type)
        name = "timers" if state.kind == "TIMER" else "value"
        self._value_head = _head(name, whole_type(state))
        self.value_head = [*self._value_head, *(["ttl"] if self._expires else [])]

    def names(self) -> dict[str, Any]:
        """The job and the state as JSON fields."""
        return {
            "job": self.state.job_name,
            "job_id": self.state.job_id,
            "state": self.state.state_name,
            "kind": self.state.kind,
        }

    def key(self, key: Any) -> Any:
        """A key as JSON."""
        return to_jsonable(key, self.state.key_type)

    def scanned_key(self, key: Any) -> dict[str, Any]:
        """A key of a scan, and its window, as JSON fields."""
        if isinstance(key, WindowedKey):
            return {"key": self.key(key.key), "window": key.window.jsonable()}
        return {"key": self.key(key)}

    def value(self, found: KvState) -> Any:
        """The whole value of a key as JSON; for a map entry, the entry's value."""
        if isinstance(found, PendingTimers):
            return timers_jsonable(found)
        if isinstance(found, MapEntry):
            return to_jsonable(found.value(), given(self.state.value_type))
        return self.whole_value(_decoded(found))

    def whole_value(self, value: Any) -> Any:
        """The decoded value of a whole key or subtask as JSON."""
        return to_jsonable(value, given(whole_type(self.state)))

    def changed_value(self, value: Any, *, of_list: bool = False) -> Any:
        """A value, a map entry's value or appended elements as JSON; None for no value."""
        info = given(self.state.value_type)
        if of_list:
            info = TypeInfo(Kind.LIST, element=info)
        return None if value is None else to_jsonable(value, info)

    def key_cells(self, key: Any) -> list[str]:
        """A key as cells for `key_head`; its window, if it has one, is one more cell."""
        if isinstance(key, WindowedKey):
            return [*self.key_cells(key.key), window_text(key.window)]
        return _cells(self.key(key), self.state.key_type)

    def value_cells(self, found: KvState) -> list[str]:
        """The whole value of a key, and its remaining life, as cells for `value_head`."""
        cells = self._value_cells(found)
        return [*cells, life_text(found.remaining_ms)] if self._expires else cells

    def _value_cells(self, found: KvState) -> list[str]:
        if isinstance(found, PendingTimers):
            # Their windows are in `value_table`.
            return [cell(", ".join(" ".join(_timer_row(each)[:2]) for each in found))]
        return _cells(self.value(found), given(whole_type(self.state)))

    def map_key(self, key: Any) -> Any:
        """A map key as JSON."""
        return to_jsonable(key, given(self.state.map_key_type))

    def value_table(self, key: Any, found: KvState) -> tuple[list[str], list[list[str]]]:
        """Header and rows of one key's value: one row per map entry, list element or timer."""
        if isinstance(found, PendingTimers):
            return ["clock", "time", "window"], [_timer_row(timer) for timer in found]
        if isinstance(found, MapState):
            map_key, value = given(self.state.map_key_type), given(self.state.value_type)
            entries = found.items()
            return [*_head("map key", map_key), *_head("value", value)], [
                [*_cells(to_jsonable(k, map_key), map_key), *_cells(to_jsonable(v, value), value)]
                for k, v in entries
            ]
        if isinstance(found, MapEntry | ListState | ListSlice):
            value = given(self.state.value_type)
            values = [found.value()] if isinstance(found, MapEntry) else found.get()
            return _head("value", value), [_cells(to_jsonable(v, value), value) for v in values]
        return [*self.key_head, *self._value_head], [
            [*self.key_cells(key), *self._value_cells(found)]
        ]


def _timer_row(timer: PendingTimer) -> list[str]:
    window = "" if timer.window is None else window_text(timer.window)
    return [timer.clock.name, iso_text(timer.timestamp_ms), window]


def whole_type(state: StateInfo) -> TypeInfo | None:
    """The type of a key's whole value; None if no value type is registered."""
    if state.value_type is None:
        return None
    match state.kind:
        case "LIST" | "OPERATOR_LIST" | "OPERATOR_UNION":
            return TypeInfo(Kind.LIST, element=state.value_type)
        case "MAP" | "BROADCAST":
            return TypeInfo(Kind.MAP, key=state.map_key_type, element=state.value_type)
        case _:
            return state.value_type


def _decoded(found: KvState) -> Any:
    if isinstance(found, MapState):
        return dict(found.items())
    return found.value() if isinstance(found, ValueState) else found.get()


def _head(name: str, info: TypeInfo | None) -> list[str]:
    if info is None:
        return [name]
    match info.kind:
        case Kind.ROW:
            return [field.name for field in info.fields]
        case Kind.TUPLE:
            return [f"{name}[{position}]" for position in range(len(info.fields))]
        case _:
            return [name]


def _cells(jsonable: Any, info: TypeInfo) -> list[str]:
    if info.kind not in (Kind.ROW, Kind.TUPLE):
        return [cell(jsonable)]
    if jsonable is None:
        return [cell(None)] * len(info.fields)
    return [cell(part) for part in (jsonable.values() if info.kind == Kind.ROW else jsonable)]
