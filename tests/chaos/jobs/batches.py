"""The batches of a workload as what they change, for jobs that are written by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.chaos.history.history import MISSING
from tests.chaos.jobs.workload import GROUP_SUMS, KEYS, RECENT, SHARES, SILENCES, STATES, TOTALS

from queryable_state.server.testing.changes import ReplaceList
from queryable_state.server.testing.cluster import declare
from queryable_state.v1 import registration_pb2
from queryable_state.wire.schema.types import Types

if TYPE_CHECKING:
    from tests.chaos.history.history import History

_LONG = Types.LONG()
DECLARED = (
    declare(TOTALS, "string", Types.ROW_NAMED(["count", "sum", "last"], [_LONG] * 3)),
    declare(RECENT, "string", "bigint", kind=registration_pb2.LIST),
    declare(SHARES, "string", "bigint", kind=registration_pb2.MAP, map_key_type="bigint"),
    declare(SILENCES, "string", Types.ROW_NAMED(["silent", "ticks", "alarm"], [_LONG] * 3)),
    declare(GROUP_SUMS, "string", Types.ROW_NAMED(["ones", "amount"], [_LONG] * 2)),
)
"""The states of the workload, of one operator."""


def changes_of(history: History, batch: int) -> dict[str, dict[str, Any]]:
    """What a batch changes, by state and key, as `InProcessJob` takes it."""
    rows = history.rows(batch)
    changed: dict[str, dict[str, Any]] = {}
    for state in STATES:
        keys = {row.group if state == GROUP_SUMS else row.key for row in rows}
        if state == SILENCES:
            # Timers change it without rows.
            keys = {key for key in KEYS if _moves(history, key, batch)}
        changed[state] = {
            key: _change(
                state, history.value(state, key, batch - 1), history.value(state, key, batch)
            )
            for key in sorted(keys)
        }
    return changed


def _moves(history: History, key: str, batch: int) -> bool:
    before, after = (history.value(SILENCES, key, of) for of in (batch - 1, batch))
    return bool(before != after)


def _change(state: str, before: Any, after: Any) -> Any:
    if state == RECENT:
        added = after[len(before or ()) :]
        return added if before is MISSING or after == before + added else ReplaceList(after)
    if state == SHARES:
        entries = dict(map(tuple, after or ()))
        return {key: None for key, _ in before or () if key not in entries} | entries
    return tuple(after)
