"""States of transformWithState, on rows and in pandas: state variables and timers.

Each state variable is a column family of the store `default`. Families whose names begin with `$`
are Spark's own: indexes and counters of TTL and lists, which are no states, and timers.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

from queryable_state.server.native_state.operators.layouts.key_columns import KeyColumns
from queryable_state.server.native_state.operators.layouts.list_layout import StoredListLayout
from queryable_state.server.native_state.operators.layouts.map_layout import MapLayout
from queryable_state.server.native_state.operators.layouts.raw_table import RawTable
from queryable_state.server.native_state.operators.layouts.signed_zeros import with_signed_zeros
from queryable_state.server.native_state.operators.layouts.timer_layout import TimerLayout
from queryable_state.server.native_state.operators.layouts.value_layout import ValueLayout
from queryable_state.server.native_state.operators.operator_tables import DEFAULT_STORE
from queryable_state.v1 import registration_pb2
from queryable_state.wire.keys.timer_keys import Clock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from queryable_state.server.native_state.operators.layouts.key_columns import Columns
    from queryable_state.server.native_state.operators.operator_tables import OperatorTables
    from queryable_state.server.native_state.operators.state_layout import StateLayout

OPERATOR = "transformWithState"
_TIMERS = "timers"
_CLOCKS = {
    "$procTimers_keyToTimestamp": Clock.PROCESSING_TIME,
    "$eventTimers_keyToTimestamp": Clock.EVENT_TIME,
}
_NEVER = -1
"""Expiry of a value that does not expire."""


class StateVariable(NamedTuple):
    """A state variable of a processor, or its timers."""

    name: str
    kind: str
    """Spark's name of the kind: `ValueState`."""
    has_ttl: bool


def state_variables(operator: OperatorTables) -> list[StateVariable]:
    """The state variables that the operator's metadata names, sorted by name."""
    try:
        variables: Sequence[Mapping[str, Any]] = operator.metadata.properties["stateVariables"]
        return sorted(
            StateVariable(
                str(each["stateName"]), str(each["stateVariableType"]), bool(each["ttlEnabled"])
            )
            for each in variables
        )
    except (KeyError, TypeError) as problem:
        raise operator.damaged(f"it does not name its state variables ({problem!r})") from problem


def variable_state(operator: OperatorTables, variable: StateVariable) -> StateLayout:
    """The state of a state variable; timers are the state `timers`."""
    name, kind, has_ttl = variable
    match kind:
        case "ValueState":
            return _value(operator, name, has_ttl)
        case "ListState":
            return _list(operator, name, has_ttl)
        case "MapState":
            return _map(operator, name, has_ttl)
        case "TimerState":
            return _timers(operator, name)
        case _:
            raise operator.unsupported(f"state variable {name!r} of type {kind}")


def _value(operator: OperatorTables, name: str, has_ttl: bool) -> StateLayout:
    keys = KeyColumns(operator.key_fields(DEFAULT_STORE, name))
    rows = _Rows(operator, name, has_ttl)
    definition = operator.definition(
        **_facts(name, rows, has_ttl),
        kind=registration_pb2.VALUE,
        key_type=keys.key_type,
        description=f"State variable {name} of the processor, a value.",
    )
    return with_signed_zeros(
        keys, lambda keys: ValueLayout(definition, _table(operator, name, keys), rows.value)
    )


def _list(operator: OperatorTables, name: str, has_ttl: bool) -> StateLayout:
    keys = KeyColumns(operator.key_fields(DEFAULT_STORE, name))
    rows = _Rows(operator, name, has_ttl)
    definition = operator.definition(
        **_facts(name, rows, has_ttl),
        kind=registration_pb2.LIST,
        key_type=keys.key_type,
        description=f"State variable {name} of the processor, a list.",
    )
    return with_signed_zeros(
        keys, lambda keys: StoredListLayout(definition, _table(operator, name, keys), rows.elements)
    )


def _map(operator: OperatorTables, name: str, has_ttl: bool) -> StateLayout:
    keys, map_key = (
        KeyColumns(struct.type.fields) for struct in operator.key_fields(DEFAULT_STORE, name)
    )
    rows = _Rows(operator, name, has_ttl)
    definition = operator.definition(
        **_facts(name, rows, has_ttl),
        kind=registration_pb2.MAP,
        key_type=keys.key_type,
        map_key_type=map_key.key_type,
        description=f"State variable {name} of the processor, a map.",
    )
    return with_signed_zeros(
        keys,
        lambda keys: MapLayout(
            definition, _table(operator, name, keys, _first), map_key, rows.value
        ),
    )


def _timers(operator: OperatorTables, name: str) -> StateLayout:
    clock = _CLOCKS.get(name)
    if clock is None:
        raise operator.unsupported(f"timers of the kind {name!r}")
    keys = KeyColumns(operator.key_fields(DEFAULT_STORE, name)[0].type.fields)
    definition = operator.definition(
        name=_TIMERS,
        kind=registration_pb2.TIMER,
        key_type=keys.key_type,
        value_type=None,
        operator=OPERATOR,
        format="",
        description=f"The registered timers of {clock.name.lower().replace('_', ' ')}.",
    )
    return with_signed_zeros(
        keys, lambda keys: TimerLayout(definition, _table(operator, name, keys, _first), clock)
    )


def _table(
    operator: OperatorTables, family: str, keys: KeyColumns, columns_of: Any = None
) -> RawTable:
    raw_keys = operator.raw_keys(DEFAULT_STORE, family)
    return RawTable(operator.source(), raw_keys, keys, columns_of)


def _first(values: Columns) -> Columns:
    columns: Columns = values[0]
    return columns


def _facts(name: str, rows: _Rows, has_ttl: bool) -> dict[str, Any]:
    return {
        "name": name,
        "value_type": rows.values.value_type,
        "has_ttl": has_ttl,
        "operator": OPERATOR,
        "format": "",
    }


class _Rows:
    """Reader of the raw values of one state variable.

    With a TTL a row is a struct of the value and the time of its expiry.
    """

    def __init__(self, operator: OperatorTables, name: str, has_ttl: bool) -> None:
        self._rows = operator.value_rows(DEFAULT_STORE, name)
        self._has_ttl = has_ttl
        self.values = self._rows.expiring_values() if has_ttl else self._rows.values()

    def value(self, raw_value: bytes, time_ms: int) -> bytes | None:
        """The encoded value; None if it has expired at `time_ms`."""
        row = self._rows.row(raw_value)
        if not self._has_ttl:
            return self.values.encode(row)
        value, expiry_ms = self._rows.expiring(row)
        if expiry_ms == _NEVER:
            return self.values.encode(value)
        return self.values.encode(value, expiry_ms) if expiry_ms > time_ms else None

    def elements(self, raw_value: bytes, time_ms: int, limit: int) -> list[bytes]:
        """The first elements that have not expired at `time_ms`, each an encoded list of one.

        Limit 0: all.
        """
        rows, encode = self._rows.rows(raw_value), self.values.encode_element
        most = limit or len(rows)
        if not self._has_ttl:
            return [encode(row) for row in rows[:most]]
        live = (
            encode(value, None if expiry_ms == _NEVER else expiry_ms)
            for value, expiry_ms in map(self._rows.expiring, rows)
            if expiry_ms == _NEVER or expiry_ms > time_ms
        )
        return list(islice(live, most))
