"""Slots of keys and windows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from queryable_state.streaming.runtime.states.input_spec import InputSpec
from queryable_state.streaming.runtime.states.key_table import KeyTable
from queryable_state.streaming.runtime.states.state_spec import StateSpec
from queryable_state.streaming.runtime.windows.window_table import WindowTable
from queryable_state.wire.keys.key_groups import KeyGroups
from queryable_state.wire.keys.store_keys import VOID_NAMESPACE, window_namespace
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from collections.abc import Sequence

_STRING = Types.STRING()


def _table(keys: Sequence[str]) -> tuple[KeyTable, WindowTable]:
    rows = InputSpec(key_columns=("k",), value_columns=("k",), value_type=_STRING, check_column="c")
    spec = StateSpec(
        uid="u",
        name="n",
        depth=0,
        parallelism=1,
        max_parallelism=128,
        inputs=(rows,),
        key_type=_STRING,
    )
    table = KeyTable(spec, 0, "operator")
    groups = KeyGroups(_STRING, 128)
    table.add_wire_keys([groups.wire_key(key) for key in keys])
    return table, WindowTable(table)


def test_a_pair_of_key_and_window_keeps_its_slot() -> None:
    _, windows = _table(["a", "b"])
    first = windows.slot(0, window_namespace(0, 10))
    assert windows.slot(1, window_namespace(0, 10)) != first
    assert windows.slot(0, window_namespace(10, 20)) != first
    assert windows.slot(0, window_namespace(0, 10)) == first
    assert len(windows) == 3


def test_the_prefix_of_a_slot_is_the_wire_key_and_the_namespace() -> None:
    keys, windows = _table(["a", "b"])
    slot = windows.slot(1, window_namespace(0, 10))
    assert windows.prefix(slot) == keys.wire_keys[1] + window_namespace(0, 10)
    assert windows.shown(slot) == "'b', window 0 to 10"
    assert windows.shown(windows.slot(1, VOID_NAMESPACE)) == "'b'"


def test_a_chunk_has_each_slot_once() -> None:
    _, windows = _table(["a"])
    early = windows.slot(0, window_namespace(0, 10))
    pairs = [(0, window_namespace(10, 20)), (0, window_namespace(0, 10))] * 2
    assert windows.start_chunk(pairs) == [1, early, 1, early]
    assert windows.chunk_slots == [1, early]
