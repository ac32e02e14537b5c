"""What the job of a round does: a state of each shape, and an operator behind the first."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tests.chaos.jobs.workload import (
    GROUP_SUMS,
    RECENT,
    RECENT_LENGTH,
    SHARE_LIMIT,
    SHARES,
    TOTALS,
)

from queryable_state.streaming import (
    KeyedProcessFunction,
    ListStateDescriptor,
    MapStateDescriptor,
    Types,
    ValueStateDescriptor,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from queryable_state.streaming import DataStream, OperatorStream, RuntimeContext
    from queryable_state.streaming.functions import Context

_TOTALS = Types.ROW_NAMED(["count", "sum", "last"], [Types.LONG(), Types.LONG(), Types.LONG()])
_OUTPUT = Types.ROW_NAMED(
    ["group", "number", "amount", "ones"],
    [Types.STRING(), Types.LONG(), Types.LONG(), Types.LONG()],
)


LEDGER, SUMS = "ledger", "groups"
"""Uids of the operators."""


class Ledger(KeyedProcessFunction):
    """Totals, recent numbers and shares of each key; passes every row on."""

    def __init__(self, renamed: Mapping[str, str]) -> None:
        """`renamed`: other names for states; readers know them by the same ones."""
        self._renamed = renamed

    def open(self, runtime_context: RuntimeContext) -> None:
        name = self._renamed.get
        totals = ValueStateDescriptor(name(TOTALS, TOTALS), _TOTALS)
        recent = ListStateDescriptor(name(RECENT, RECENT), Types.LONG())
        shares = MapStateDescriptor(name(SHARES, SHARES), Types.LONG(), Types.LONG())
        totals.set_queryable(TOTALS)
        recent.set_queryable(RECENT)
        shares.set_queryable(SHARES)
        self.totals = runtime_context.get_state(totals)
        self.recent = runtime_context.get_list_state(recent)
        self.shares = runtime_context.get_map_state(shares)

    def process_element(self, value: Any, ctx: Context) -> Iterator[Any]:
        count, total, _ = self.totals.value() or (0, 0, 0)
        self.totals.update((count + 1, total + value.amount, value.number))
        if count and count % RECENT_LENGTH == 0:
            self.recent.clear()
        self.recent.add(value.number)
        share = value.amount % 5
        shares = (self.shares.get(share) or 0) + 1
        if shares == SHARE_LIMIT:
            self.shares.remove(share)
        else:
            self.shares.put(share, shares)
        yield value.group, value.number, value.amount, 1


def build(rows: DataStream, renamed: Mapping[str, str] = MappingProxyType({})) -> OperatorStream:
    """The operators on the input; what comes out has a row for each group and batch.

    `renamed`: other uids and names of states than the usual ones.
    """
    sums = build_rows(rows, renamed).key_by("group")
    return sums.aggregate_sum("ones", "amount", queryable_name=GROUP_SUMS).uid(
        renamed.get(SUMS, SUMS)
    )


def build_rows(
    rows: DataStream, renamed: Mapping[str, str] = MappingProxyType({})
) -> OperatorStream:
    """The first operator alone, for a sink that keeps every row."""
    ledger = rows.key_by("key").process(Ledger(dict(renamed)), _OUTPUT)
    return ledger.uid(renamed.get(LEDGER, LEDGER))
